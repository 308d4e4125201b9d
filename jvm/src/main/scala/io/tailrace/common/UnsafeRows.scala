package io.tailrace.common

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, UnsafeProjection, UnsafeRow}

/** Makes Spark's binary rows of rows, which most are already. For one task; what it gives is valid until the next row. */
final class UnsafeRows(columns: Seq[Attribute]) extends (InternalRow => UnsafeRow) {
  private lazy val projection = UnsafeProjection.create(columns, columns)

  override def apply(row: InternalRow): UnsafeRow = row match {
    case unsafe: UnsafeRow => unsafe
    case other => projection(other)
  }
}
