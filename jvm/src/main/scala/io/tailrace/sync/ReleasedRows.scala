package io.tailrace.sync

import java.util.PriorityQueue

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import io.tailrace.common.RowMemoryExhausted
import io.tailrace.state._

/** The left rows that are released in a batch, by key, time and sequence number. Where they are too many for the memory,
  * they are sorted in parts, in local files, which are merged: a release after a long stall is as large as the stall.
  */
private[sync] final class ReleasedRows(store: TailraceStateStore, memory: RowMemory, bufferBytes: Long)
    extends AutoCloseable {
  private val rows = new RowBuffer(memory)
  private val parts = new ArrayBuffer[ScratchRun]

  private var order = new Array[Int](0)
  private var position = -1

  private val cursors = new ArrayBuffer[RunCursor]
  private val queue = new PriorityQueue[RunCursor](
    11,
    (a: RunCursor, b: RunCursor) => {
      val byKey = a.compareKey(b.base, b.at)
      if (byKey != 0) byKey else a.compareTimeAndSeq(b.time, b.seq)
    }
  )
  private val lastKey = new RowBuffer(memory).prepare()
  private var current: RunCursor = _

  private var first = false

  def append(key: Array[Byte], keyLength: Int, time: Long, seq: Long, value: UnsafeRow): Unit = {
    try rows.append(key, keyLength, time, seq, value)
    catch {
      case _: RowMemoryExhausted if !rows.isEmpty =>
        spill()
        rows.append(key, keyLength, time, seq, value)
    }
    if (rows.bytes > bufferBytes) spill()
  }

  /** @param base see [[io.tailrace.state.RowLayout]] */
  def append(base: AnyRef, at: Long): Unit = {
    try rows.appendRow(base, at)
    catch {
      case _: RowMemoryExhausted if !rows.isEmpty =>
        spill()
        rows.appendRow(base, at)
    }
    if (rows.bytes > bufferBytes) spill()
  }

  def isEmpty: Boolean = rows.isEmpty && parts.isEmpty

  /** Gives the memory of its rows back. */
  def spill(): Unit = if (!rows.isEmpty) {
    // One bucket, or two if there are times before the epoch.
    parts += store.scratch(SortedRows.all(StoreKind.HeldRight, rows, Long.MaxValue))
    rows.clear()
  }

  /** Begins to hand the rows out. */
  def start(): Unit =
    if (parts.isEmpty) order = RowSort.byKeyTimeAndSeq(rows)
    else {
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
      if (position < order.length) first = position == 0 || differs(order(position - 1), order(position))
      position < order.length
    }

  private def differs(a: Int, b: Int): Boolean =
    rows.keyPrefix(a) != rows.keyPrefix(b) || (!rows.prefixesAreKeys && rows.compareKeys(a, b) != 0)

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
