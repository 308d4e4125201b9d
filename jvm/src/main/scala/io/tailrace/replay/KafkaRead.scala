package io.tailrace.replay

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2
import org.apache.spark.sql.connector.catalog.Table
import org.apache.spark.sql.tailrace.KafkaJson
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** What a query that isn't started yet reads from Kafka.
  *
  * @param options of the source
  */
private[replay] final case class KafkaRead(options: CaseInsensitiveStringMap, loader: ClassLoader) {

  /** By name; none if they are found by a pattern, or if the source is going to refuse what it is told. */
  def topics: Option[Seq[String]] = Option(options.get("subscribe"))
    .map(KafkaJson.subscribed)
    .orElse(Option(options.get("assign")).flatMap(KafkaJson.topics).map(_.map(_._1)))

  /** Whether it may be records of several topics. */
  def mayReadSeveral: Boolean = {
    val isRefused = topics.isEmpty && options.containsKey("assign")
    !isRefused && !topics.exists(_.size == 1)
  }
}

private[replay] object KafkaRead {

  /** Splits a partition's records over tasks. */
  val Splitting: Seq[String] = Seq("minPartitions", "maxRecordsPerPartition")

  def isKafka(table: Table): Boolean = table.getClass.getName.startsWith("org.apache.spark.sql.kafka010.")

  def unapply(node: LogicalPlan): Option[KafkaRead] = node match {
    case r: StreamingRelationV2 if isKafka(r.table) =>
      Some(KafkaRead(r.extraOptions, r.table.getClass.getClassLoader))
    case _ => None
  }

  /** @return what has several tasks read a partition's records at the same time, in a user's words */
  def splits(node: LogicalPlan): Option[String] = node match {
    case KafkaRead(read) =>
      Splitting
        .find(read.options.containsKey(_))
        .map(o => s"several tasks to a partition (the Kafka source's $o)")
    case _ => None
  }
}
