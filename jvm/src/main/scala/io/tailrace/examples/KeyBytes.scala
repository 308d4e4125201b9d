package io.tailrace.examples

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.catalyst.expressions.{Expression, GenericInternalRow, NonSQLExpression}
import org.apache.spark.sql.types.{BinaryType, DataType}

import io.tailrace.state.KeyEncoder

/** Key columns as bytes. Equal bytes are equal keys, by the join's own rule: -0.0 is 0.0, and all NaN are one.
  * It is null if a column is.
  */
case class KeyBytes(children: Seq[Expression]) extends Expression with CodegenFallback with NonSQLExpression {
  override def dataType: DataType = BinaryType
  override def nullable: Boolean = children.exists(_.nullable)

  @transient private lazy val encoder =
    new KeyEncoder(children.indices.toArray, children.map(_.dataType).toArray)
  @transient private lazy val values = new GenericInternalRow(children.size)

  override def eval(input: InternalRow): Any = {
    var i = 0
    while (i < children.size) {
      values.update(i, children(i).eval(input))
      i += 1
    }
    val length = encoder.encode(values)
    if (length == 0) null else java.util.Arrays.copyOf(encoder.bytes, length)
  }

  override protected def withNewChildrenInternal(newChildren: IndexedSeq[Expression]): KeyBytes =
    copy(newChildren)
}
