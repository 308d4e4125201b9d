package io.tailrace.sync

import org.apache.spark.sql.tailrace._
import org.json4s.JsonAST.{JField, JInt, JObject}
import org.json4s.jackson.JsonMethods

import io.tailrace.common.JoinedNames

/** A partition of a topic. */
private[sync] final case class KafkaPartition(topic: String, number: Int)

private[sync] object KafkaPartition {

  /** The columns of Kafka's source. */
  val Columns: Seq[String] = Seq("topic", "partition")

  /** Whether columns are Kafka's own. */
  def isOf(columns: Seq[String]): Boolean = columns.forall(Columns.contains)
}

/** The offsets of Spark's Kafka source, the first that isn't read: `{"clicks":{"0":17,"1":0}}`. */
private[sync] object KafkaOffsets {

  /** @return none if the text is something else */
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

  /** The text, as the source writes it. */
  def json(offsets: Map[KafkaPartition, Long]): String = {
    val topics = offsets.toSeq.groupBy(_._1.topic).toSeq.sortBy(_._1).map { case (topic, partitions) =>
      val ends = partitions.map { case (p, offset) => p.number -> offset }.sortBy(_._1)
      JField(topic, JObject(ends.toList.map { case (n, offset) => JField(n.toString, JInt(offset)) }))
    }
    JsonMethods.compact(JObject(topics.toList))
  }

  /** Ends of a batch that reads at most `most` records, each partition in proportion to what it has.
    *
    * {{{
    *   most 10   from 0: 100, 1: 100   to 0: 130, 1: 110   ->   0: 107, 1: 102
    * }}}
    */
  def within(
      from: Map[KafkaPartition, Long],
      to: Map[KafkaPartition, Long],
      most: Long
  ): Map[KafkaPartition, Long] = {
    val counts = to.map { case (partition, end) => partition -> (end - from.getOrElse(partition, end)) }
    val all = counts.values.filter(_ > 0).sum
    if (all <= most) to
    else {
      val shared = counts.map { case (p, count) => p -> (Math.max(0L, count).toDouble / all * most).toLong }
      // Rounding must not leave a batch without a record.
      val read = if (shared.values.sum > 0) shared else shared + (counts.maxBy(_._2)._1 -> 1L)
      to.map { case (p, end) => p -> (if (counts(p) > 0) end - counts(p) + read(p) else end) }
    }
  }

  /** True if a partition is among these names, made of `partition` alone or of `topic` and `partition`. */
  def isAmong(partition: KafkaPartition, names: Set[String]): Boolean = {
    val number = partition.number.toString
    names(number) || names(PartitionNames.of(Seq(partition.topic, number)))
  }
}

/** Names of source partitions, made of the values of their columns. No two partitions have the same name.
  *
  * {{{
  *   clicks, 7         ->  clicks-7            as Kafka's tools name them
  *   eu-west, 1        ->  eu-west-1
  *   eu, west-1        ->  eu-west%2D1         a value behind the first column never contains `-`
  *   null              ->  %
  * }}}
  */
private[sync] object PartitionNames {
  private val Null = "%"

  /** @param values of the columns, in their order; null where a row has none */
  def of(values: Seq[String]): String =
    (first(values.head) +: values.tail.map(further)).mkString(JoinedNames.Separator)

  // Names of topics and of hosts stay as they are.
  private def first(value: String): String =
    if (value == null) Null else if (value.startsWith(Null)) s"$Null$value" else value

  private def further(value: String): String =
    if (value == null) Null else JoinedNames.further(value)

  /** The name in files of format 1, which several partitions may have shared. */
  def formerly(values: Seq[String]): String = values.map(String.valueOf(_)).mkString("-")
}
