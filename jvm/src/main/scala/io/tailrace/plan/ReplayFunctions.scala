package io.tailrace.plan

import org.apache.spark.sql.catalyst.FunctionIdentifier
import org.apache.spark.sql.catalyst.expressions.{Expression, ExpressionInfo, Literal}

import io.tailrace.common.Errors
import io.tailrace.replay._

/** The functions of `io.tailrace.replay` under their names in SQL. */
object ReplayFunctions {
  type Description = (FunctionIdentifier, ExpressionInfo, Seq[Expression] => Expression)

  val all: Seq[Description] = Seq(
    describe(
      classOf[StreamMetadata],
      "stream_metadata(producer_id, partition, offset)",
      "24 bytes that name a record's producer, source partition and source offset."
    ) { case Seq(producerId, partition, offset) => StreamMetadata(producerId, partition, offset) },
    describe(
      classOf[ParseStreamMetadata],
      "parse_stream_metadata(metadata)",
      "A struct of pid, partition and offset; null if the bytes aren't metadata."
    ) { case Seq(metadata) => ParseStreamMetadata(metadata) },
    describe(
      classOf[SourcePartition],
      "source_partition(partition, destination_partitions)",
      "The partition of the destination that keeps a source partition's records in order."
    ) { case Seq(partition, destinations) => SourcePartition(partition, destinations) },
    describe(
      classOf[MergeStreamMetadata],
      "merge_stream_metadata(metadata)",
      "An aggregate: of one producer's and partition's metadata those with the greatest offset; null if one is null."
    ) { case Seq(metadata) => MergeStreamMetadata(metadata) },
    describe(
      classOf[ProducerId],
      "producer_id(query, stream, brokers, path[, epoch])",
      "64 bits that name a producer; the order of the brokers in their list doesn't matter."
    ) {
      case parts if parts.size == 5 => ProducerId(parts)
      case parts if parts.size == 4 => ProducerId(parts :+ Literal(""))
    }
  )

  private def describe(expression: Class[_], call: String, usage: String)(
      build: PartialFunction[Seq[Expression], Expression]
  ): Description = {
    val name = call.takeWhile(_ != '(')
    (
      FunctionIdentifier(name),
      new ExpressionInfo(
        expression.getName,
        null,
        name,
        s"$call - $usage",
        "",
        "",
        "",
        "misc_funcs",
        "",
        "",
        ""
      ),
      arguments =>
        build.applyOrElse(arguments, (a: Seq[Expression]) => throw Errors.functionArguments(call, a.size))
    )
  }
}
