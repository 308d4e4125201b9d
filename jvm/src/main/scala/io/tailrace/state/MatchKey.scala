package io.tailrace.state

import org.apache.spark.unsafe.Platform

import io.tailrace.common.OrderedBytes

/** The key of a row of `joined-indicator`, a match: time and sequence number of its right row. Both are big-endian with
  * the sign bit flipped, so that they are in the order of bytes. The row's own time and number are its left row's.
  */
private[tailrace] object MatchKey {
  private val SeqAt = 8

  val Length = 16

  /** Puts the key of a match behind what `key` has. */
  def put(key: OrderedBytes, rightTime: Long, rightSeq: Long): Unit = {
    key.putInt64(rightTime)
    key.putInt64(rightSeq)
  }

  def rightTime(base: AnyRef, at: Long): Long = value(base, RowLayout.keyAt(at))

  def rightSeq(base: AnyRef, at: Long): Long = value(base, RowLayout.keyAt(at) + SeqAt)

  def writeRightSeq(base: AnyRef, at: Long, seq: Long): Unit =
    Platform.putLong(base, RowLayout.keyAt(at) + SeqAt, java.lang.Long.reverseBytes(seq ^ Long.MinValue))

  private def value(base: AnyRef, at: Long): Long =
    java.lang.Long.reverseBytes(Platform.getLong(base, at)) ^ Long.MinValue
}
