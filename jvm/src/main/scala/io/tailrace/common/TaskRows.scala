package io.tailrace.common

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.codegen.GenerateUnsafeRowJoiner
import org.apache.spark.sql.catalyst.expressions.{Attribute, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.types.StructType

/** An iterator that is made of steps. Each step gives one row or none. */
abstract class StepwiseRows[R >: Null <: AnyRef] extends Iterator[R] {
  private var waiting: R = _
  private var ended = false

  /** The row of the next step; null if the step gives none. */
  protected def step(): R

  /** Says that no step follows. */
  protected final def end(): Unit = ended = true
  protected final def hasEnded: Boolean = ended

  override final def hasNext: Boolean = {
    while (waiting == null && !ended) waiting = step()
    waiting != null
  }

  override final def next(): R = {
    if (!hasNext) throw new NoSuchElementException("no more rows")
    val row = waiting
    waiting = null
    row
  }
}

/** Converts rows to Spark's binary format, which most have already. A result is valid until the next row. */
final class UnsafeRows(columns: Seq[Attribute]) extends (InternalRow => UnsafeRow) {
  private lazy val projection = UnsafeProjection.create(columns, columns)

  override def apply(row: InternalRow): UnsafeRow = row match {
    case unsafe: UnsafeRow => unsafe
    case other => projection(other)
  }
}

/** Appends the column `_mark` to rows. A result is valid until the next row. */
final class MarkedRows(schema: StructType) {
  def this(columns: Seq[Attribute]) = this(DataTypeUtils.fromAttributes(columns))

  private val joiner = GenerateUnsafeRowJoiner.create(schema, Mark.Schema)

  def apply(row: UnsafeRow, mark: Mark): UnsafeRow = joiner.join(row, mark.row)

  def ordinary(row: UnsafeRow): UnsafeRow = joiner.join(row, Mark.ordinary)
}
