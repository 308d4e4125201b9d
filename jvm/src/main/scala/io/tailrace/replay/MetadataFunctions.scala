package io.tailrace.replay

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.analysis.TypeCheckResult
import org.apache.spark.sql.catalyst.analysis.TypeCheckResult.{DataTypeMismatch, TypeCheckSuccess}
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.DeclarativeAggregate
import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke
import org.apache.spark.sql.catalyst.trees.UnaryLike
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

import io.tailrace.common.Errors
import io.tailrace.plan.SqlFunction

/** `stream_metadata(producer id, partition, offset[, format])`: [[RecordMetadata]] as `binary`. Null if an argument
  * is null or out of range.
  */
case class StreamMetadata(
    producerId: Expression,
    partition: Expression,
    offset: Expression,
    format: MetadataFormat = MetadataFormat.Tagged
) extends MetadataFunction {
  override def children: Seq[Expression] = Seq(producerId, partition, offset)
  override def inputTypes: Seq[DataType] = Seq(LongType, IntegerType, LongType)
  override def prettyName: String = "stream_metadata"

  override protected def checkValues(): TypeCheckResult =
    atLeast(0, partition, "partition", Int.MaxValue)
      .orElse(atLeast(0, offset, "offset", RecordMetadata.OffsetLimit - 1))

  override lazy val replacement: Expression =
    StaticInvoke(RecordMetadata.getClass, BinaryType, format.encoder, children, inputTypes)

  override protected def withNewChildrenInternal(c: IndexedSeq[Expression]): Expression =
    copy(c(0), c(1), c(2))
}

/** The two forms of the bytes that name a record's origin.
  *
  * @param name    as a user writes it
  * @param encoder the method of [[RecordMetadata]] that writes it
  */
sealed abstract class MetadataFormat(val name: String, val encoder: String) extends Serializable

object MetadataFormat {

  /** 24 bytes, which can be distinguished from other keys. */
  case object Tagged extends MetadataFormat("tagged", "encode")

  /** 20 bytes, as SQE reads and writes them. */
  case object Sqe extends MetadataFormat("sqe", "encodeUntagged")

  private val all = Seq(Tagged, Sqe)

  def of(argument: Expression): MetadataFormat = {
    val isText = argument.foldable && argument.dataType.isInstanceOf[StringType]
    val value = if (isText) Option(argument.eval()).fold("")(_.toString) else argument.sql
    all.find(isText && _.name == value).getOrElse {
      throw Errors.optionInvalid(
        "tailrace.stream_metadata",
        "format",
        value,
        all.map(f => s"'${f.name}'").mkString(" or ")
      )
    }
  }
}

/** `parse_stream_metadata(binary)`: a struct of `pid`, `partition` and `offset`, or null if the bytes aren't
  * metadata.
  */
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

/** `source_partition(partition, destination_partitions)`: the destination's partition that keeps records of
  * one source partition in order. It is the source partition modulo the number of the destination's
  * partitions.
  */
case class SourcePartition(partition: Expression, destinationPartitions: Expression)
    extends MetadataFunction {
  override def children: Seq[Expression] = Seq(partition, destinationPartitions)
  override def inputTypes: Seq[DataType] = Seq(IntegerType, IntegerType)
  override def prettyName: String = "source_partition"

  override protected def checkValues(): TypeCheckResult =
    if (!destinationPartitions.foldable || destinationPartitions.eval() == null) {
      val input = Map("inputName" -> "`destination_partitions`", "inputType" -> "\"INT\"")
      DataTypeMismatch("NON_FOLDABLE_INPUT", input + ("inputExpr" -> s"\"${destinationPartitions.sql}\""))
    } else {
      atLeast(1, destinationPartitions, "destination_partitions", Int.MaxValue)
        .orElse(atLeast(0, partition, "partition", Int.MaxValue))
    }

  // A partition below the number of destinations is its own remainder.
  override lazy val replacement: Expression = Pmod(partition, destinationPartitions)

  override protected def withNewChildrenInternal(c: IndexedSeq[Expression]): Expression = copy(c(0), c(1))
}

/** A function with typed arguments. Values that are known when the query is planned are checked then. */
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

/** Called by the generated code of these functions. */
object MetadataExpressions {
  import RecordMetadata.{isValid, offset, partition}

  def parse(bytes: Array[Byte]): InternalRow =
    if (!isValid(bytes)) null
    else InternalRow(RecordMetadata.producerId(bytes), partition(bytes), offset(bytes))

  def producerId(
      query: UTF8String,
      stream: UTF8String,
      brokers: UTF8String,
      path: UTF8String,
      epoch: UTF8String
  ): Long =
    ProducerIds.hash(query.toString, stream.toString, brokers.toString, path.toString, epoch.toString)
}

/** `merge_stream_metadata(binary)`, an aggregate: the metadata of a record that was made of several records
  * of one producer and partition (two of either in a group are an error). It is their metadata with the
  * greatest offset. It is null if one record has no metadata: the result must not be filtered, because it is
  * unknown which records are in it.
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

  private def called(method: String, result: DataType, nullable: Boolean, bytes: Expression*): Expression = {
    val types = bytes.map(_ => BinaryType)
    StaticInvoke(RecordMetadata.getClass, result, method, bytes, types, propagateNull = false, nullable)
  }

  private def later(a: Expression, b: Expression): Expression = called("later", BinaryType, true, a, b)
  private def isValid: Expression = called("isValid", BooleanType, false, metadata)

  override lazy val updateExpressions: Seq[Expression] =
    Seq(If(isValid, later(latest, metadata), latest), Or(unknown, Not(isValid)))

  override lazy val mergeExpressions: Seq[Expression] =
    Seq(later(latest.left, latest.right), Or(unknown.left, unknown.right))

  override lazy val evaluateExpression: Expression = If(unknown, Literal(null, BinaryType), latest)

  override protected def withNewChildInternal(newChild: Expression): Expression = copy(metadata = newChild)
}

/** The functions of this package under their names in SQL. */
object ReplayFunctions {
  // The arguments of a function are resolved when it is made.
  private val WholeNumbers: Set[DataType] = Set(ByteType, ShortType, IntegerType, LongType, NullType)

  /** Spark would cast a string to a number, and only a task would find that it is none. */
  private def wholeNumbers(call: String, arguments: (String, Expression)*): Unit =
    arguments.find(argument => !WholeNumbers(argument._2.dataType)).foreach { case (name, value) =>
      throw Errors.functionArgumentType(call, name, value.dataType.sql, "a whole number, INT or BIGINT")
    }

  private def metadata(
      producerId: Expression,
      partition: Expression,
      offset: Expression,
      format: MetadataFormat
  ): Expression = {
    wholeNumbers("stream_metadata", "producer_id" -> producerId, "partition" -> partition, "offset" -> offset)
    StreamMetadata(producerId, partition, offset, format)
  }

  val all: Seq[SqlFunction.Description] = Seq(
    SqlFunction(
      classOf[StreamMetadata],
      "stream_metadata(producer_id, partition, offset[, format])",
      "24 bytes that name a record's producer, source partition and source offset; 20 with the format 'sqe'."
    ) {
      case Seq(producerId, partition, offset) =>
        metadata(producerId, partition, offset, MetadataFormat.Tagged)
      case Seq(producerId, partition, offset, format) =>
        metadata(producerId, partition, offset, MetadataFormat.of(format))
    },
    SqlFunction(
      classOf[ParseStreamMetadata],
      "parse_stream_metadata(metadata)",
      "A struct of pid, partition and offset; null if the bytes aren't metadata."
    ) { case Seq(metadata) => ParseStreamMetadata(metadata) },
    SqlFunction(
      classOf[SourcePartition],
      "source_partition(partition, destination_partitions)",
      "The partition of the destination that keeps a source partition's records in order."
    ) { case Seq(partition, destinations) =>
      wholeNumbers("source_partition", "partition" -> partition, "destination_partitions" -> destinations)
      SourcePartition(partition, destinations)
    },
    SqlFunction(
      classOf[MergeStreamMetadata],
      "merge_stream_metadata(metadata)",
      "An aggregate: the metadata with the greatest offset, of one producer and partition; " +
        "null if one is null."
    ) { case Seq(metadata) => MergeStreamMetadata(metadata) },
    SqlFunction(
      classOf[ProducerId],
      "producer_id(query, stream, brokers, path[, epoch])",
      "64 bits that name a producer; the order of the brokers in their list doesn't matter."
    ) {
      case parts if parts.size == 5 => ProducerId(parts)
      case parts if parts.size == 4 => ProducerId(parts :+ Literal(""))
    }
  )
}
