package io.tailrace.replay

import org.apache.spark.sql.catalyst.expressions.Literal

import io.tailrace.plan.SqlFunction

/** The functions of `io.tailrace.replay` under their names in SQL. */
object ReplayFunctions {
  val all: Seq[SqlFunction.Description] = Seq(
    SqlFunction(
      classOf[StreamMetadata],
      "stream_metadata(producer_id, partition, offset)",
      "24 bytes that name a record's producer, source partition and source offset."
    ) { case Seq(producerId, partition, offset) => StreamMetadata(producerId, partition, offset) },
    SqlFunction(
      classOf[ParseStreamMetadata],
      "parse_stream_metadata(metadata)",
      "A struct of pid, partition and offset; null if the bytes aren't metadata."
    ) { case Seq(metadata) => ParseStreamMetadata(metadata) },
    SqlFunction(
      classOf[SourcePartition],
      "source_partition(partition, destination_partitions)",
      "The partition of the destination that keeps a source partition's records in order."
    ) { case Seq(partition, destinations) => SourcePartition(partition, destinations) },
    SqlFunction(
      classOf[MergeStreamMetadata],
      "merge_stream_metadata(metadata)",
      "An aggregate: of one producer's and partition's metadata those with the greatest offset; null if one is null."
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
