package io.tailrace.state

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import io.tailrace.common.RowMemoryExhausted

/** Rows that are gathered to be written out: when they are many, or when Spark has no more memory for them.
  *
  * @param limit    bytes that it may hold
  * @param flush    writes them out and clears the buffer
  * @param makeRoom gives back what memory there is, these rows' and that of others.
  *                 @return whether there was any
  */
final class FlushingRows(val rows: RowBuffer, limit: Long, flush: () => Unit, makeRoom: () => Boolean) {

  def append(key: Array[Byte], keyLength: Int, time: Long, seq: Long, value: UnsafeRow): Unit =
    append(key, keyLength, time, seq, value.getBaseObject, value.getBaseOffset, value.getSizeInBytes)

  /** Appends a row made of its parts. */
  def append(
      key: Array[Byte],
      keyLength: Int,
      time: Long,
      seq: Long,
      valueBase: AnyRef,
      valueOffset: Long,
      valueLength: Int
  ): Unit = {
    try rows.append(key, keyLength, time, seq, valueBase, valueOffset, valueLength)
    catch {
      case _: RowMemoryExhausted if makeRoom() =>
        rows.append(key, keyLength, time, seq, valueBase, valueOffset, valueLength)
    }
    if (rows.bytes > limit) flush()
  }

  /** Appends a copy of a row: see [[RowLayout]]. */
  def appendRow(base: AnyRef, at: Long): Unit = {
    try rows.appendRow(base, at)
    catch { case _: RowMemoryExhausted if makeRoom() => rows.appendRow(base, at) }
    if (rows.bytes > limit) flush()
  }
}
