package io.tailrace.sync

import java.util.PriorityQueue

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import io.tailrace.state.{
  FlushingRows,
  RowBuffer,
  RowLayout,
  RowMemory,
  RunCursor,
  ScratchRun,
  SortedRows,
  StoreKind,
  TailraceStateStore
}

/** The left rows that are released in a batch, by key, time and their bytes. Where they are too many for the memory,
  * they are sorted in parts, in local files, which are merged: a release after a long stall is as large as the stall.
  */
private[sync] final class ReleasedRows(
    store: TailraceStateStore,
    memory: RowMemory,
    bufferBytes: Long,
    makeRoom: () => Boolean
) extends AutoCloseable {
  private val rows = new RowBuffer(memory)
  private val gathered = new FlushingRows(rows, bufferBytes, () => spill(), makeRoom)
  private val parts = new ArrayBuffer[ScratchRun]

  private val byBytes = new ReleasedOrder(rows)
  private var order = new Array[Int](0)
  private var position = -1

  private val cursors = new ArrayBuffer[RunCursor]
  private val queue = new PriorityQueue[RunCursor](
    11,
    (a: RunCursor, b: RunCursor) => {
      val byKey = a.compareKey(b.base, b.at)
      if (byKey != 0) byKey
      else if (a.time != b.time) java.lang.Long.compare(a.time, b.time)
      else {
        val byValue = RowLayout.compareValues(a.base, a.at, b.base, b.at)
        if (byValue != 0) byValue else java.lang.Long.compare(a.seq, b.seq)
      }
    }
  )
  private val lastKey = new RowBuffer(memory).prepare()
  private var current: RunCursor = _

  private var first = false

  def append(key: Array[Byte], keyLength: Int, time: Long, seq: Long, value: UnsafeRow): Unit =
    gathered.append(key, keyLength, time, seq, value)

  /** @param base see [[io.tailrace.state.RowLayout]] */
  def append(base: AnyRef, at: Long): Unit = gathered.appendRow(base, at)

  /** Of the rows that are in memory. */
  def bytes: Long = rows.bytes

  /** Gives the memory of its rows back. */
  def spill(): Unit = if (!rows.isEmpty) {
    val byKey = byBytes.sorted
    // A run wants rows of one key and time by number, and they are in the order of their bytes.
    byKey.indices.foreach(i => rows.renumber(byKey(i), i.toLong))
    // One bucket, or two if there are times before the epoch.
    parts += store.scratch(SortedRows.ofSorted(StoreKind.HeldRight, rows, byKey, Long.MaxValue, 1))
    rows.clear()
  }

  /** Gives all memory of its rows back. */
  def release(): Unit = {
    spill()
    rows.release()
  }

  /** Begins to hand the rows out. */
  def start(): Unit =
    if (parts.isEmpty) {
      order = byBytes.sorted
    } else {
      spill()
      parts.flatMap(_.sections).foreach { live =>
        val cursor = live.cursor()
        cursors += cursor
        cursor.first()
        if (cursor.isValid) queue.add(cursor)
      }
    }

  /** Goes on to the next row. @return false if there is none */
  def next(): Boolean =
    if (cursors.nonEmpty) nextMerged()
    else {
      position += 1
      if (position < order.length)
        first = position == 0 || byBytes.differs(order(position - 1), order(position))
      position < order.length
    }

  private def nextMerged(): Boolean = {
    if (current != null) {
      lastKey.clear()
      lastKey.appendKey(current.base, current.at)
      current.next()
      if (current.isValid) queue.add(current)
    }
    current = queue.poll()
    first = current != null && (lastKey.isEmpty || current.compareKey(lastKey.base(0), lastKey.at(0)) != 0)
    current != null
  }

  /** Whether the row is the first one of its key. */
  def isFirst: Boolean = first

  /** Where the row is: see [[io.tailrace.state.RowLayout]]. Until the next one. */
  def base: AnyRef = if (current != null) current.base else rows.base(order(position))
  def at: Long = if (current != null) current.at else rows.at(order(position))
  def keyPrefix: Long = if (current != null) current.keyPrefix else rows.keyPrefix(order(position))

  override def close(): Unit = {
    cursors.foreach(_.close())
    cursors.clear()
    parts.foreach(_.close())
    parts.clear()
    rows.close()
    lastKey.close()
  }
}
