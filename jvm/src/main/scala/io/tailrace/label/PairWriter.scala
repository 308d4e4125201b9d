package io.tailrace.label

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.catalyst.expressions.codegen.GenerateUnsafeRowJoiner
import org.apache.spark.sql.types.StructType

import io.tailrace.common.MarkedRows
import io.tailrace.join.JoinColumns

/** Writes a pair: the left row, the right row's columns but the keys, then `_mark` if late rows come out. */
final class PairWriter(columns: JoinColumns, settings: JoinSettings) {
  private val joiner = GenerateUnsafeRowJoiner.create(columns.leftSchema, columns.payloadSchema)
  private lazy val marked =
    new MarkedRows(StructType(columns.leftSchema.fields ++ columns.payloadSchema.fields))

  /** @return a row that is valid until the next call */
  def write(left: UnsafeRow, right: UnsafeRow): UnsafeRow = {
    val pair = joiner.join(left, right)
    if (settings.marksLate) marked.ordinary(pair) else pair
  }
}
