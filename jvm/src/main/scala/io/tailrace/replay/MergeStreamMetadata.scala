package io.tailrace.replay

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.DeclarativeAggregate
import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke
import org.apache.spark.sql.catalyst.trees.UnaryLike
import org.apache.spark.sql.types._

/** `merge_stream_metadata(binary)`, an aggregate: the metadata of a record that was made of several of one producer and
  * partition: theirs with the greatest offset. Null as soon as one of them has none: such a result must not be filtered,
  * for nobody knows which records are in it.
  *
  * Records of two producers or partitions in one group are an error: group by both.
  */
case class MergeStreamMetadata(metadata: Expression)
    extends DeclarativeAggregate
    with ImplicitCastInputTypes
    with UnaryLike[Expression] {
  override def child: Expression = metadata
  override def inputTypes: Seq[DataType] = Seq(BinaryType)
  override def dataType: DataType = BinaryType
  override def nullable: Boolean = true
  override def prettyName: String = "merge_stream_metadata"

  private lazy val latest = AttributeReference("latest", BinaryType)()
  private lazy val unknown = AttributeReference("unknown", BooleanType, nullable = false)()

  override lazy val aggBufferAttributes: Seq[AttributeReference] = Seq(latest, unknown)
  override lazy val initialValues: Seq[Expression] = Seq(Literal(null, BinaryType), Literal(false))

  private def later(a: Expression, b: Expression): Expression =
    StaticInvoke(
      RecordMetadata.getClass,
      BinaryType,
      "later",
      Seq(a, b),
      Seq(BinaryType, BinaryType),
      propagateNull = false
    )

  private def isValid(bytes: Expression): Expression =
    StaticInvoke(
      RecordMetadata.getClass,
      BooleanType,
      "isValid",
      Seq(bytes),
      Seq(BinaryType),
      propagateNull = false,
      returnNullable = false
    )

  override lazy val updateExpressions: Seq[Expression] = Seq(
    If(isValid(metadata), later(latest, metadata), latest),
    Or(unknown, Not(isValid(metadata)))
  )

  override lazy val mergeExpressions: Seq[Expression] =
    Seq(later(latest.left, latest.right), Or(unknown.left, unknown.right))

  override lazy val evaluateExpression: Expression = If(unknown, Literal(null, BinaryType), latest)

  override protected def withNewChildInternal(newChild: Expression): Expression = copy(metadata = newChild)
}
