package io.tailrace.join

import java.util.Arrays

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, UnsafeRow}

import io.tailrace.common.UnsafeRows
import io.tailrace.state.KeyEncoder

/** One sorted input, and its head: the left side's current row, or the right side's next one. */
private[tailrace] final class SortedSide private (
    rows: Iterator[InternalRow],
    attributes: Seq[Attribute],
    keys: KeyEncoder,
    timeOrdinal: Int
) {
  private val unsafe = new UnsafeRows(attributes)
  private var current: UnsafeRow = _
  private var keyLength = 0

  /** True if there is a head; reads it if need be. */
  def hasHead: Boolean = current != null || rows.hasNext && {
    current = unsafe(rows.next())
    keyLength = keys.encode(current)
    true
  }
  def dropHead(): Unit = current = null

  def head: UnsafeRow = current
  def time: Long = current.getLong(timeOrdinal)
  def canMatch: Boolean = keyLength > 0 && hasTime
  def hasTime: Boolean = !current.isNullAt(timeOrdinal)
  def copyKey(): Array[Byte] = Arrays.copyOf(keys.bytes, keyLength)
  def compareKey(key: Array[Byte]): Int =
    Arrays.compareUnsigned(keys.bytes, 0, keyLength, key, 0, key.length)
}

private[tailrace] object SortedSide {
  def left(rows: Iterator[InternalRow], columns: JoinColumns): SortedSide =
    new SortedSide(rows, columns.left, columns.leftKeyEncoder(), columns.leftTimeOrdinal)

  def right(rows: Iterator[InternalRow], columns: JoinColumns): SortedSide =
    new SortedSide(rows, columns.right, columns.rightKeyEncoder(), columns.rightTimeOrdinal)
}
