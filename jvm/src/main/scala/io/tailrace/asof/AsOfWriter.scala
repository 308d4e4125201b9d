package io.tailrace.asof

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import io.tailrace.common.{Mark, MemoryErrors}
import io.tailrace.join.{JoinColumns, LeftRowWriter}
import io.tailrace.state.{RowLayout, RowMemory}

/** Writes a row of an as-of join: the left columns, the right row as a struct, or null, and `_mark` if late rows are
  * emitted with it.
  */
private[asof] final class AsOfWriter(columns: JoinColumns, memory: RowMemory)
    extends LeftRowWriter(columns, memory) {
  private val markAt = 1
  private val hasMarks = columns.added.size > markAt

  /** @return a row that is valid until the next one */
  def write(left: UnsafeRow, found: NewestRow): UnsafeRow = {
    val at = restAt(left)
    val length = found.valueLength
    if (at.toLong + length > LeftRowWriter.MostBytes) throw MemoryErrors.groupTooLarge(1, at.toLong + length)
    ensure(at + length)
    writeLeft(left)
    putAdded(0, offsetAndSize(at, length))
    copy(found.base, found.valueOffset, at, length)
    if (hasMarks) writeNull(markAt)
    written(at + length)
  }

  /** A left row without a right row. */
  def alone(left: UnsafeRow): UnsafeRow = {
    val at = restAt(left)
    ensure(at)
    writeLeft(left)
    writeNull(0)
    if (hasMarks) writeNull(markAt)
    written(at)
  }

  /** One that is behind the watermark. */
  def late(left: UnsafeRow): UnsafeRow =
    if (!hasMarks) alone(left)
    else {
      val at = restAt(left)
      val text = Mark.LateLeft.text
      val end = at + RowLayout.padded(text.numBytes).toInt
      ensure(end)
      writeLeft(left)
      writeNull(0)
      put(end - 8, 0L)
      copy(text.getBaseObject, text.getBaseOffset, at, text.numBytes)
      putAdded(markAt, offsetAndSize(at, text.numBytes))
      written(end)
    }
}
