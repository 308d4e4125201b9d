package io.tailrace.asof

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import io.tailrace.common.MemoryErrors
import io.tailrace.join.{JoinColumns, LeftRowWriter}
import io.tailrace.state.RowMemory

/** Writes a row of an as-of join: the left columns, and the right row as a struct, or null. */
private[asof] final class AsOfWriter(columns: JoinColumns, memory: RowMemory)
    extends LeftRowWriter(columns, memory) {

  /** @return a row that is valid until the next one */
  def write(left: UnsafeRow, found: NewestRow): UnsafeRow = {
    val at = restAt(left)
    val length = found.valueLength
    if (at.toLong + length > LeftRowWriter.MostBytes) throw MemoryErrors.groupTooLarge(1, at.toLong + length)
    ensure(at + length)
    writeLeft(left)
    putAdded(0, offsetAndSize(at, length))
    copy(found.base, found.valueOffset, at, length)
    written(at + length)
  }

  /** A left row without a right row. */
  def alone(left: UnsafeRow): UnsafeRow = {
    val at = restAt(left)
    ensure(at)
    writeLeft(left)
    writeNull(0)
    written(at)
  }
}
