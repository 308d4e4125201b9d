package io.tailrace.sync

import org.apache.spark.sql.tailrace.KafkaJson
import org.json4s.JsonAST.{JField, JInt, JObject}
import org.json4s.jackson.JsonMethods

/** A partition of a topic. */
private[sync] final case class KafkaPartition(topic: String, number: Int)

/** The offsets of Spark's Kafka source: `{"clicks":{"0":17,"1":0}}`, of each partition the first one that isn't read. */
private[sync] object KafkaOffsets {

  /** @return none if it is something else */
  def parse(json: String): Option[Map[KafkaPartition, Long]] =
    KafkaJson.topics(json).flatMap { topics =>
      val all = topics.flatMap {
        case (topic, JObject(partitions)) =>
          partitions.map {
            case (number, JInt(offset)) if offset.isValidLong =>
              number.toIntOption.map(n => KafkaPartition(topic, n) -> offset.toLong)
            case _ => None
          }
        case _ => Seq(None)
      }
      Option.when(all.nonEmpty && all.forall(_.isDefined))(all.flatten.toMap)
    }

  /** As the source writes them. */
  def json(offsets: Map[KafkaPartition, Long]): String = {
    val topics = offsets.toSeq.groupBy(_._1.topic).toSeq.sortBy(_._1).map { case (topic, partitions) =>
      val ends = partitions.map { case (p, offset) => p.number -> offset }.sortBy(_._1)
      JField(topic, JObject(ends.toList.map { case (n, offset) => JField(n.toString, JInt(offset)) }))
    }
    JsonMethods.compact(JObject(topics.toList))
  }

  /** Whether a partition is one of those that are known by Kafka's columns, `partition` alone or `topic` too. */
  def isAmong(partition: KafkaPartition, names: Set[String]): Boolean =
    names(partition.number.toString) || names(
      PartitionNames.of(Seq(partition.topic, partition.number.toString))
    )
}
