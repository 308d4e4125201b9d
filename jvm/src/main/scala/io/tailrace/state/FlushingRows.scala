package io.tailrace.state

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

/** Rows that are gathered to be written out: when they are many, or when Spark has no more memory for them.
  *
  * @param limit    bytes that it may hold
  * @param flush    writes the rows out and clears the buffer
  * @param makeRoom see [[RowBuffer]]
  */
final class FlushingRows(memory: RowMemory, limit: Long, flush: () => Unit, makeRoom: () => Boolean) {
  val rows = new RowBuffer(memory, makeRoom)

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
    rows.append(key, keyLength, time, seq, valueBase, valueOffset, valueLength)
    if (rows.bytes > limit) flush()
  }

  /** Appends a copy of a row: see [[RowLayout]]. */
  def appendRow(base: AnyRef, at: Long): Unit = {
    rows.appendRow(base, at)
    if (rows.bytes > limit) flush()
  }
}
