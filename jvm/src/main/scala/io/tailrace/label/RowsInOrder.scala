package io.tailrace.label

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.unsafe.Platform

import io.tailrace.common.RowMemoryExhausted
import io.tailrace.join.StoredJoinContext
import io.tailrace.state.{CursorRows, LiveSection, OrderedRows, RowBuffer, RowLayout}

/** Rows of key-sorted sections by key, time and content. Sections have rows of one key and time in the order in which
  * they came, which another try of the batch, or another number of partitions, may change:
  *
  * {{{
  *   sections    (A,12:00) z   (A,12:00) x   (A,12:01) y        in the order of arrival
  *   here        (A,12:00) x   (A,12:00) z   (A,12:01) y
  * }}}
  *
  * Rows of one key and time are sorted in local files if they don't fit in memory.
  *
  * @param rows by key and time
  */
private[label] final class RowsInOrder(rows: CursorRows, context: StoredJoinContext) extends AutoCloseable {
  import RowsInOrder._
  import context.{bufferBytes, memory, store}

  // Rows of one key and time, each with its number and that of its section behind its value.
  private lazy val ties: OrderedRows = new OrderedRows(store, memory, bufferBytes, () => ties.makeRoom())
  private val tiesOf = new ArrayBuffer[LiveSection]
  private var hasTies = false
  private var isTied = false
  private val tied = new UnsafeRow(0)
  private var from: LiveSection = _

  def isEmpty: Boolean = !isTied && rows.isEmpty

  /** Of the next row. */
  def time: Long = if (isTied) RowLayout.time(ties.base, ties.at) else rows.head.time

  /** True if the next row has the key of a row: see [[io.tailrace.state.RowLayout]]. */
  def hasKey(base: AnyRef, at: Long): Boolean =
    if (!isTied) rows.head.compareKey(base, at) == 0
    else {
      val prefix = RowLayout.keyPrefix(base, at)
      RowLayout.compareKeys(ties.keyPrefix, ties.base, ties.at, prefix, base, at) == 0
    }

  /** Appends the next row to others. Where there is none, it must have room.
    *
    * @return false: there is no room for it, and it is still the next one
    */
  def appendTo(to: RowBuffer): Boolean =
    if (isTied) appendTied(to)
    else
      to.appendIfRoom(rows.head.base, rows.head.at) && {
        from = rows.headSection
        rows.drop()
        val last = to.size - 1
        !isTie(to.time(last), to.base(last), to.at(last)) || {
          gather(to)
          appendTied(to)
        }
      }

  /** The section of the row that was appended last. */
  def section: LiveSection = from

  /** Leaves out the rows before a time. For rows of one key. */
  def dropBefore(until: Long): Unit = {
    if (isTied && time < until) endTies()
    while (!isTied && !rows.isEmpty && rows.head.time < until) rows.drop()
  }

  private def isTie(time: Long, base: AnyRef, at: Long): Boolean =
    !rows.isEmpty && rows.head.time == time && rows.head.compareKey(base, at) == 0

  /** Takes the last row back, and sorts it with all others of its key and time. */
  private def gather(to: RowBuffer): Unit = {
    val last = to.size - 1
    val key = RowLayout.keyBytes(to.base(last), to.at(last))
    val (probe, time) = (RowLayout.ofKey(key, key.length), to.time(last))
    hasTies = true
    tie(key, to.base(last), to.at(last), from)
    to.truncate(last)
    while (isTie(time, probe, Start)) {
      tie(key, rows.head.base, rows.head.at, rows.headSection)
      rows.drop()
    }
    ties.start()
    isTied = ties.next()
  }

  private def tie(key: Array[Byte], base: AnyRef, at: Long, of: LiveSection): Unit = {
    if (tiesOf.isEmpty || (tiesOf.last ne of)) tiesOf += of
    val length = RowLayout.valueLength(base, at)
    val value = new Array[Byte](length + Behind)
    Platform.copyMemory(base, RowLayout.valueAt(base, at), value, Start, length.toLong)
    Platform.putLong(value, Start + length, RowLayout.seq(base, at))
    Platform.putLong(value, Start + length + 8, tiesOf.size - 1L)
    tied.pointTo(value, value.length)
    ties.append(key, key.length, RowLayout.time(base, at), 0L, tied)
  }

  private def appendTied(to: RowBuffer): Boolean = {
    val (base, at) = (ties.base, ties.at)
    val key = RowLayout.keyBytes(base, at)
    val valueAt = RowLayout.valueAt(base, at)
    val length = RowLayout.valueLength(base, at) - Behind
    val behind = valueAt + length
    val (seq, of) = (Platform.getLong(base, behind), Platform.getLong(base, behind + 8).toInt)
    val hasRoom =
      try {
        to.append(key, key.length, RowLayout.time(base, at), seq, base, valueAt, length): Unit
        true
      } catch { case _: RowMemoryExhausted if !to.isEmpty => false }
    if (hasRoom) {
      from = tiesOf(of)
      if (!ties.next()) endTies()
    }
    hasRoom
  }

  private def endTies(): Unit = {
    isTied = false
    tiesOf.clear()
    ties.restart()
  }

  override def close(): Unit = {
    isTied = false
    rows.close()
    if (hasTies) ties.close()
  }
}

private object RowsInOrder {
  private val Start = Platform.BYTE_ARRAY_OFFSET.toLong

  /** Bytes behind a value. No row's value is the beginning of another one's, so they decide between equal rows only. */
  private val Behind = 16
}
