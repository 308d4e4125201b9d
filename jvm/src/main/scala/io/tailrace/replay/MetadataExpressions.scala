package io.tailrace.replay

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.analysis.TypeCheckResult
import org.apache.spark.sql.catalyst.analysis.TypeCheckResult.{DataTypeMismatch, TypeCheckSuccess}
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** `stream_metadata(producer id, partition, offset)`: [[RecordMetadata]] as `binary`, null if one of them is null or can't
  * be one.
  */
case class StreamMetadata(producerId: Expression, partition: Expression, offset: Expression)
    extends MetadataFunction {
  override def children: Seq[Expression] = Seq(producerId, partition, offset)
  override def inputTypes: Seq[DataType] = Seq(LongType, IntegerType, LongType)
  override def prettyName: String = "stream_metadata"

  override protected def checkValues(): TypeCheckResult =
    atLeast(0, partition, "partition", Int.MaxValue).orElse(
      atLeast(0, offset, "offset", RecordMetadata.OffsetLimit - 1)
    )

  override lazy val replacement: Expression =
    StaticInvoke(
      RecordMetadata.getClass,
      BinaryType,
      "encode",
      children,
      inputTypes
    )

  override protected def withNewChildrenInternal(c: IndexedSeq[Expression]): Expression =
    copy(c(0), c(1), c(2))
}

/** `parse_stream_metadata(binary)`: a struct of `pid`, `partition` and `offset`, or null if the bytes aren't metadata. */
case class ParseStreamMetadata(metadata: Expression) extends MetadataFunction {
  override def children: Seq[Expression] = Seq(metadata)
  override def inputTypes: Seq[DataType] = Seq(BinaryType)
  override def prettyName: String = "parse_stream_metadata"

  override lazy val replacement: Expression =
    StaticInvoke(MetadataExpressions.getClass, ParseStreamMetadata.Schema, "parse", children, inputTypes)

  override protected def withNewChildrenInternal(c: IndexedSeq[Expression]): Expression = copy(c(0))
}

object ParseStreamMetadata {
  val Schema: StructType = new StructType()
    .add("pid", LongType, nullable = false)
    .add("partition", IntegerType, nullable = false)
    .add("offset", LongType, nullable = false)
}

/** `producer_id(query, stream, brokers, path[, epoch])`: see [[ProducerIds]]. */
case class ProducerId(override val children: Seq[Expression]) extends MetadataFunction {
  override def inputTypes: Seq[DataType] = Seq.fill(5)(StringType)
  override def prettyName: String = "producer_id"

  override lazy val replacement: Expression =
    StaticInvoke(
      MetadataExpressions.getClass,
      LongType,
      "producerId",
      children,
      inputTypes,
      returnNullable = false
    )

  override protected def withNewChildrenInternal(c: IndexedSeq[Expression]): Expression = copy(c)
}

/** `source_partition(partition, destination_partitions)`: where a record belongs so that records of one source partition
  * stay in order: the same number where there are as many or more, else the remainder.
  */
case class SourcePartition(partition: Expression, destinationPartitions: Expression)
    extends MetadataFunction {
  override def children: Seq[Expression] = Seq(partition, destinationPartitions)
  override def inputTypes: Seq[DataType] = Seq(IntegerType, IntegerType)
  override def prettyName: String = "source_partition"

  override protected def checkValues(): TypeCheckResult =
    if (!destinationPartitions.foldable || destinationPartitions.eval() == null) {
      DataTypeMismatch(
        "NON_FOLDABLE_INPUT",
        Map(
          "inputName" -> "`destination_partitions`",
          "inputType" -> "\"INT\"",
          "inputExpr" -> s"\"${destinationPartitions.sql}\""
        )
      )
    } else {
      atLeast(1, destinationPartitions, "destination_partitions", Int.MaxValue)
        .orElse(atLeast(0, partition, "partition", Int.MaxValue))
    }

  // A partition below the number of destinations is its own remainder.
  override lazy val replacement: Expression = Pmod(partition, destinationPartitions)

  override protected def withNewChildrenInternal(c: IndexedSeq[Expression]): Expression = copy(c(0), c(1))
}

/** A function of this package: typed arguments, each value that is known at planning checked there. */
sealed abstract class MetadataFunction
    extends Expression
    with RuntimeReplaceable
    with ImplicitCastInputTypes {

  protected def checkValues(): TypeCheckResult = TypeCheckSuccess

  override def checkInputDataTypes(): TypeCheckResult = {
    val types = super.checkInputDataTypes()
    if (types.isFailure) types else checkValues()
  }

  protected implicit class Checks(first: TypeCheckResult) {
    def orElse(next: => TypeCheckResult): TypeCheckResult = if (first.isFailure) first else next
  }

  protected def atLeast(least: Long, argument: Expression, name: String, most: Long): TypeCheckResult = {
    val value = if (argument.foldable) Option(argument.eval()) else None
    value.map(_.asInstanceOf[Number].longValue).filter(v => v < least || v > most) match {
      case Some(wrong) =>
        DataTypeMismatch(
          "VALUE_OUT_OF_RANGE",
          Map("exprName" -> name, "valueRange" -> s"[$least, $most]", "currentValue" -> wrong.toString)
        )
      case None => TypeCheckSuccess
    }
  }
}

/** What the generated code of these functions calls. */
object MetadataExpressions {
  def parse(bytes: Array[Byte]): InternalRow =
    if (!RecordMetadata.isValid(bytes)) null
    else {
      InternalRow(
        RecordMetadata.producerId(bytes),
        RecordMetadata.partition(bytes),
        RecordMetadata.offset(bytes)
      )
    }

  def producerId(
      query: UTF8String,
      stream: UTF8String,
      brokers: UTF8String,
      path: UTF8String,
      epoch: UTF8String
  ): Long =
    ProducerIds.hash(query.toString, stream.toString, brokers.toString, path.toString, epoch.toString)
}
