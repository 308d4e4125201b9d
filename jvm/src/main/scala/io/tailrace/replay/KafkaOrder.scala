package io.tailrace.replay

import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeSet}
import org.apache.spark.sql.catalyst.plans.logical.{EventTimeWatermark, Filter, LogicalPlan, Project}
import org.apache.spark.sql.connector.catalog.Table
import org.apache.spark.sql.execution.datasources.v2.StreamingDataSourceV2ScanRelation

import io.tailrace.plan.{TailraceNode, WrapsTable}

/** Whether records come as they stand in Kafka: each partition of a topic read by one task, in the order of its offsets.
  * Then nothing has to be shuffled and sorted to judge them in that order.
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
