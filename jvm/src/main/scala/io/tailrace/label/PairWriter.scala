package io.tailrace.label

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.catalyst.expressions.codegen.GenerateUnsafeRowJoiner
import org.apache.spark.sql.types.{BooleanType, StructField, StructType}

import io.tailrace.join.JoinColumns

/** Writes a pair: the left row, the right row's columns but the keys, then `late` if late rows come out. */
final class PairWriter(columns: JoinColumns, settings: JoinSettings) {
  private val joiner = GenerateUnsafeRowJoiner.create(columns.leftSchema, columns.payloadSchema)
  private lazy val lateJoiner = GenerateUnsafeRowJoiner.create(
    StructType(columns.leftSchema.fields ++ columns.payloadSchema.fields),
    StructType(Seq(StructField(JoinSettings.LateColumn, BooleanType, nullable = false)))
  )
  private val notLate = new UnsafeRow(1)
  notLate.pointTo(new Array[Byte](16), 16)

  /** @return a row that is valid until the next call */
  def write(left: UnsafeRow, right: UnsafeRow): UnsafeRow = {
    val pair = joiner.join(left, right)
    if (settings.emitLate) lateJoiner.join(pair, notLate) else pair
  }
}
