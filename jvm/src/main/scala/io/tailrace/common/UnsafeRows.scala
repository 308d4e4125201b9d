package io.tailrace.common

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.codegen.GenerateUnsafeRowJoiner
import org.apache.spark.sql.catalyst.expressions.{Attribute, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.types.{BooleanType, StructType}

/** Makes Spark's binary rows of rows, which most are already. For one task; what it gives is valid until the next row. */
final class UnsafeRows(columns: Seq[Attribute]) extends (InternalRow => UnsafeRow) {
  private lazy val projection = UnsafeProjection.create(columns, columns)

  override def apply(row: InternalRow): UnsafeRow = row match {
    case unsafe: UnsafeRow => unsafe
    case other => projection(other)
  }
}

/** Puts a column that says yes or no behind a row's. For one task; what it gives is valid until the next row. */
final class FlaggedRows(columns: Seq[Attribute]) {
  private val schema = new StructType().add("flag", BooleanType, nullable = false)
  private val joiner = GenerateUnsafeRowJoiner.create(DataTypeUtils.fromAttributes(columns), schema)
  private val flags = UnsafeProjection.create(schema)
  private val no = flags(InternalRow(false)).copy()
  private val yes = flags(InternalRow(true)).copy()

  def apply(row: UnsafeRow, flag: Boolean): UnsafeRow = joiner.join(row, if (flag) yes else no)
}
