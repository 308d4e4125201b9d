package io.tailrace.replay

import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeSet}
import org.apache.spark.sql.catalyst.plans.logical.{EventTimeWatermark, Filter, LogicalPlan, Project}
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2
import org.apache.spark.sql.connector.catalog.Table
import org.apache.spark.sql.execution.datasources.v2.StreamingDataSourceV2ScanRelation
import org.apache.spark.sql.tailrace.KafkaJson
import org.apache.spark.sql.util.CaseInsensitiveStringMap

import io.tailrace.plan.{TailraceNode, WrapsTable}

/** A read from Kafka, in the plan of a query that isn't started yet.
  *
  * @param options of the source
  */
private[replay] final case class KafkaRead(options: CaseInsensitiveStringMap, loader: ClassLoader) {

  /** The topics by name; none if a pattern finds them, or if the source is going to refuse its options. */
  def topics: Option[Seq[String]] = Option(options.get("subscribe"))
    .map(KafkaJson.subscribed)
    .orElse(Option(options.get("assign")).flatMap(KafkaJson.topics).map(_.map(_._1)))

  /** Whether records of several topics may come. */
  def mayReadSeveral: Boolean = {
    val isRefused = topics.isEmpty && options.containsKey("assign")
    !isRefused && !topics.exists(_.size == 1)
  }
}

private[replay] object KafkaRead {

  /** Options that split a partition's records over several tasks. */
  val Splitting: Seq[String] = Seq("minPartitions", "maxRecordsPerPartition")

  def isKafka(table: Table): Boolean = table.getClass.getName.startsWith("org.apache.spark.sql.kafka010.")

  def unapply(node: LogicalPlan): Option[KafkaRead] = node match {
    case r: StreamingRelationV2 if isKafka(r.table) =>
      Some(KafkaRead(r.extraOptions, r.table.getClass.getClassLoader))
    case _ => None
  }

  /** Why several tasks read a partition's records at the same time, in a user's words. */
  def splits(node: LogicalPlan): Option[String] = node match {
    case KafkaRead(read) =>
      Splitting
        .find(read.options.containsKey(_))
        .map(o => s"several tasks to a partition (the Kafka source's $o)")
    case _ => None
  }
}

/** Finds out whether records come in Kafka's order: one task reads a partition of a topic, by its offsets.
  * Then no shuffle and no sort is needed to judge them in that order.
  */
object KafkaOrder {

  /** @param order topic, partition and offset */
  def isKept(plan: LogicalPlan, order: Seq[Attribute]): Boolean = plan match {
    case Project(_, child) => isKept(child, order)
    case Filter(_, child) => isKept(child, order)
    case EventTimeWatermark(_, _, _, child) => isKept(child, order)
    case node: TailraceNode if node.keepsTasks => node.children.forall(isKept(_, order))
    case scan: StreamingDataSourceV2ScanRelation =>
      KafkaRead.isKafka(source(scan.relation.table)) &&
      !KafkaRead.Splitting.exists(scan.relation.options.containsKey(_)) &&
      order.map(_.name) == Seq("topic", "partition", "offset") && AttributeSet(order).subsetOf(scan.outputSet)
    case _ => false
  }

  private def source(table: Table): Table = table match {
    case wrapper: WrapsTable => wrapper.source
    case other => other
  }
}
