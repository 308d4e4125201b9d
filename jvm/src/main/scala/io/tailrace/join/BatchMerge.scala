package io.tailrace.join

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.codegen.GenerateUnsafeRowJoiner
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.types.StructType

import io.tailrace.state.{KeyEncoder, RowBuffer, RowMemory}

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
  private val values = new RowBuffer(memory)
  private val matches = new MatchList(values)

  private val left = new SortedSide(leftRows, columns.left, columns.leftKeyEncoder(), columns.leftTimeOrdinal)
  private val right =
    new SortedSide(rightRows, columns.right, columns.rightKeyEncoder(), columns.rightTimeOrdinal)
  private val payload = columns.payloadProjection()
  private val writer = new GroupWriter(settings, columns.payload.size)
  private val joiner =
    if (settings.isGrouped) GenerateUnsafeRowJoiner.create(columns.leftSchema, columns.addedSchema)
    else GenerateUnsafeRowJoiner.create(columns.leftSchema, columns.payloadSchema)
  private lazy val lateJoiner = GenerateUnsafeRowJoiner.create(
    StructType(columns.leftSchema.fields ++ columns.payloadSchema.fields),
    columns.lateSchema
  )
  private val notLate = new UnsafeRow(1)
  notLate.pointTo(new Array[Byte](16), 16)
  private val element = new UnsafeRow(columns.payload.size)

  private var key = new Array[Byte](0)
  private var first = 0
  private var found = new Array[Int](0)
  private var count = 0
  private var position = 0
  private var started = false

  override def hasNext: Boolean =
    if (settings.isGrouped) left.hasNext
    else {
      while (position >= count && nextLeft()) {}
      position < count
    }

  override def next(): InternalRow =
    if (settings.isGrouped) {
      if (!nextLeft()) throw new NoSuchElementException("no more left rows")
      joiner.join(left.row, writer.write(values, found, count, left.time))
    } else {
      if (!hasNext) throw new NoSuchElementException("no more pairs")
      val i = found(position)
      position += 1
      element.pointTo(values.valueBase(i), values.valueOffset(i), values.valueLength(i))
      val pair = joiner.join(left.row, element)
      if (settings.emitLate) lateJoiner.join(pair, notLate) else pair
    }

  /** Takes the next left row and finds its matches. */
  private def nextLeft(): Boolean =
    left.hasNext && {
      left.advance()
      position = 0
      count = 0
      if (left.canMatch) collect()
      true
    }

  private def collect(): Unit = {
    if (!started || !left.hasKey(key)) {
      started = true
      key = left.copyKey()
      values.clear()
      first = 0
      while (right.hasHead && (!right.headCanMatch || right.compareHead(key) < 0)) right.dropHead()
    }
    val upper = window.upperBound(left.time)
    while (right.hasHead && right.compareHead(key) == 0 && right.headTime <= upper) {
      val value = payload(right.head)
      values.append(
        key,
        0,
        right.headTime,
        0L,
        value.getBaseObject,
        value.getBaseOffset,
        value.getSizeInBytes
      )
      right.dropHead()
    }
    val lower = window.lowerBound(left.time)
    while (first < values.size && values.time(first) < lower) first += 1
    matches.reset(1)
    var i = first
    while (i < values.size) {
      matches.add(0, i)
      i += 1
    }
    count = matches.count(0)
    found = matches.ordered(0)
  }

  override def close(): Unit = values.close()
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
