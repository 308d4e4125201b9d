package io.tailrace.label

import org.apache.spark.unsafe.Platform

import io.tailrace.common.OrderedBytes
import io.tailrace.state.{FlushingRows, RowLayout}

/** A row of the joined-indicator store (`jvm/docs/formats.md`): a match, under the time and the sequence number of its
  * left row. Its key is the right row's time and sequence number, which tells the matches of a left row apart; its value
  * is the right row's.
  */
private[label] final class JoinedRow {
  private val key = new OrderedBytes(16)

  def append(to: FlushingRows, left: AnyRef, leftAt: Long, right: AnyRef, rightAt: Long): Unit = {
    key.reset()
    key.putInt64(RowLayout.time(right, rightAt))
    key.putInt64(RowLayout.seq(right, rightAt))
    to.append(
      key.bytes,
      key.length,
      RowLayout.time(left, leftAt),
      RowLayout.seq(left, leftAt),
      right,
      RowLayout.valueAt(right, rightAt),
      RowLayout.valueLength(right, rightAt)
    )
  }
}

private[label] object JoinedRow {

  /** The right row's time. */
  def rightTime(base: AnyRef, at: Long): Long =
    java.lang.Long.reverseBytes(Platform.getLong(base, RowLayout.keyAt(at))) ^ Long.MinValue
}
