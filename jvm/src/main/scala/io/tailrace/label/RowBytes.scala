package io.tailrace.label

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.catalyst.expressions.{Expression, UnsafeProjection}
import org.apache.spark.sql.types.{BinaryType, DataType}

/** The bytes of a row with these columns, by which rows of one key and time are ordered: those that the state of a
  * stream has.
  */
private[label] final case class RowBytes(children: Seq[Expression]) extends Expression with CodegenFallback {
  @transient private lazy val row = UnsafeProjection.create(children)

  override def nullable: Boolean = false
  override def dataType: DataType = BinaryType

  // A copy: the bytes of the projection's row may be its buffer itself, and two rows are compared.
  override def eval(input: InternalRow): Any = row(input).copy().getBytes

  override protected def withNewChildrenInternal(newChildren: IndexedSeq[Expression]): RowBytes =
    copy(children = newChildren)
}
