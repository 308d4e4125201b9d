package io.tailrace.asof

import org.apache.spark.unsafe.Platform

import io.tailrace.state.{RowLayout, RunCursor}

/** A copy of the newest of the offered right rows. Rows of the same time are ordered by their content, because a
  * shuffle brings them in another order each time.
  */
private[asof] final class NewestRow {
  private var bytes = new Array[Byte](1024)
  private var full = false
  private var rowTime = 0L

  def isEmpty: Boolean = !full
  def clear(): Unit = full = false

  def time: Long = rowTime

  def offer(row: RunCursor): Unit =
    if (!full || row.time > rowTime || row.time == rowTime && isBefore(row.base, row.at)) {
      val length = RowLayout.length(row.base, row.at)
      makeRoom(length)
      Platform.copyMemory(row.base, row.at, bytes, NewestRow.Start, length)
      full = true
      rowTime = row.time
    }

  /** Offers a right row that has no key. */
  def offer(time: Long, value: AnyRef, offset: Long, length: Int): Unit =
    if (!full || time >= rowTime) {
      val row = new Array[Byte](RowLayout.length(0, length).toInt)
      RowLayout.writeHeader(row, NewestRow.Start, time, 0L, 0, length)
      Platform.copyMemory(value, offset, row, RowLayout.valueAt(row, NewestRow.Start), length.toLong)
      if (!full || time > rowTime || isBefore(row, NewestRow.Start)) {
        bytes = row
        full = true
        rowTime = time
      }
    }

  private def isBefore(other: AnyRef, otherAt: Long): Boolean =
    RowLayout.compareValues(bytes, NewestRow.Start, other, otherAt) < 0

  private def makeRoom(length: Long): Unit =
    if (bytes.length < length) bytes = new Array[Byte](Math.toIntExact(Math.max(length, bytes.length * 2L)))

  /** Where its value is, in the bytes of [[RowLayout]]. */
  def base: AnyRef = bytes
  def valueOffset: Long = RowLayout.valueAt(bytes, NewestRow.Start)
  def valueLength: Int = RowLayout.valueLength(bytes, NewestRow.Start)
}

private object NewestRow {
  private val Start = Platform.BYTE_ARRAY_OFFSET.toLong
}
