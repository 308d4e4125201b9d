package io.tailrace.join

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}

import io.tailrace.state.{KeyEncoder, RowMemory}

/** Joins two iterators that are sorted by key and time. Holds the right rows of one key at a time; each row that comes
  * out is valid until the next one.
  */
private[join] final class BatchMerge(
    columns: JoinColumns,
    settings: JoinSettings,
    leftRows: Iterator[InternalRow],
    rightRows: Iterator[InternalRow],
    memory: RowMemory
) extends Iterator[InternalRow]
    with AutoCloseable {
  private val window = settings.window
  private val candidates = new Candidates(memory)

  private val left = new SortedSide(leftRows, columns.left, columns.leftKeyEncoder(), columns.leftTimeOrdinal)
  private val right =
    new SortedSide(rightRows, columns.right, columns.rightKeyEncoder(), columns.rightTimeOrdinal)
  private val payload = columns.payloadProjection()
  private lazy val groups = new GroupWriter(columns, settings)
  private lazy val pairs = new PairWriter(columns, settings)
  private val element = new UnsafeRow(columns.payload.size)

  private var key = new Array[Byte](0)
  private var started = false
  // Pairs of the current left row are out up to `position`, of the matches up to `end`.
  private var position = 0
  private var end = 0

  override def hasNext: Boolean =
    if (settings.isGrouped) left.hasNext
    else {
      while (position >= end && nextLeft()) {}
      position < end
    }

  override def next(): InternalRow =
    if (settings.isGrouped) {
      if (!nextLeft()) throw new NoSuchElementException("no more left rows")
      groups.write(left.row, left.time, candidates, position, end - position)
    } else {
      if (!hasNext) throw new NoSuchElementException("no more pairs")
      val pair = pairs.write(left.row, candidates.pointTo(element, position))
      position += 1
      pair
    }

  /** Takes the next left row and finds its matches. */
  private def nextLeft(): Boolean =
    left.hasNext && {
      left.advance()
      if (left.canMatch) findMatches() else end = position
      true
    }

  /** All right rows of a key are candidates: of equal times, the content decides their order, so they must all be there. */
  private def findMatches(): Unit = {
    if (!started || !left.hasKey(key)) {
      started = true
      key = left.copyKey()
      collect()
    }
    candidates.slideTo(window.lowerBound(left.time), window.upperBound(left.time))
    position = candidates.first
    end = position + candidates.count
  }

  private def collect(): Unit = {
    candidates.clear()
    while (right.hasHead && (!right.headCanMatch || right.compareHead(key) < 0)) right.dropHead()
    while (right.hasHead && right.headCanMatch && right.compareHead(key) == 0) {
      val value = payload(right.head)
      candidates.add(right.headTime, value.getBaseObject, value.getBaseOffset, value.getSizeInBytes)
      right.dropHead()
    }
    candidates.settle()
  }

  override def close(): Unit = candidates.close()
}

/** One sorted input: its current row, for the left side, or its head, for the right one, with key and time. */
private final class SortedSide(
    rows: Iterator[InternalRow],
    attributes: Seq[org.apache.spark.sql.catalyst.expressions.Attribute],
    keys: KeyEncoder,
    timeOrdinal: Int
) {
  private lazy val toUnsafe = UnsafeProjection.create(attributes, attributes)
  private var current: UnsafeRow = _
  private var keyLength = 0

  private def take(): Unit = {
    current = rows.next() match {
      case row: UnsafeRow => row
      case row => toUnsafe(row)
    }
    keyLength = keys.encode(current)
  }

  def hasNext: Boolean = rows.hasNext
  def advance(): Unit = take()
  def row: UnsafeRow = current
  def time: Long = current.getLong(timeOrdinal)
  def canMatch: Boolean = keyLength > 0 && !current.isNullAt(timeOrdinal)
  def copyKey(): Array[Byte] = java.util.Arrays.copyOf(keys.bytes, keyLength)
  def hasKey(key: Array[Byte]): Boolean = compare(key) == 0

  private def compare(key: Array[Byte]): Int =
    java.util.Arrays.compareUnsigned(keys.bytes, 0, keyLength, key, 0, key.length)

  def hasHead: Boolean = current != null || (rows.hasNext && { take(); true })
  def head: UnsafeRow = current
  def headTime: Long = time
  def headCanMatch: Boolean = canMatch
  def compareHead(key: Array[Byte]): Int = compare(key)
  def dropHead(): Unit = current = null
}
