package org.apache.spark.sql.tailrace

import java.util.UUID

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, SortOrder}
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.exchange.{Exchange, ReusedExchangeExec}
import org.apache.spark.sql.execution.{ColumnarRule, SparkPlan, UnaryExecNode}
import org.apache.spark.unsafe.types.CalendarInterval

/** Keeps the watermark visible where a streaming query with state uses the same rows twice, for instance a
  * DataFrame on both sides of a join: see [[SharedExchangeExec]]. The rows are still shuffled once.
  *
  * It is a columnar rule, because those run between the rules that add state and exchanges and the rule that
  * finds equal exchanges. Two operators with state are never equal: each has its own state.
  */
object SharedExchanges extends ColumnarRule {
  override def postColumnarTransitions: Rule[SparkPlan] = Marking

  private object Marking extends Rule[SparkPlan] {
    override def apply(plan: SparkPlan): SparkPlan = {
      val hasState = conf.exchangeReuseEnabled && plan.exists(_.isInstanceOf[StateStoreWriter])
      val shared = if (hasState) sharedExchanges(plan) else Set.empty[SparkPlan]
      if (shared.isEmpty) plan
      else
        plan.transformUp {
          case exchange: Exchange if shared.contains(exchange.canonicalized) =>
            SharedExchangeExec(exchange)(watermark(exchange).get)
        }
    }

    /** Exchanges that Spark finds equal to another one. */
    private def sharedExchanges(plan: SparkPlan): Set[SparkPlan] = {
      val exchanges = plan.collect { case e: Exchange if watermark(e).nonEmpty => e.canonicalized }
      exchanges.diff(exchanges.distinct).toSet
    }

    private def watermark(plan: SparkPlan): Option[EventTimeWatermarkExec] =
      plan.collectFirst { case w: EventTimeWatermarkExec => w }
  }
}

/** Stands above an exchange that Spark may replace by an equal one. If Spark does, the node becomes a
  * [[ReusedWatermarkExec]].
  *
  * Spark computes the watermarks of a batch over the plan of the batch before, and a reused exchange is a
  * leaf of that plan. Without this node, operators above it have no watermark from the second batch on, and
  * never evict their rows.
  *
  * @param watermark a watermark node below the exchange
  */
final case class SharedExchangeExec(child: SparkPlan)(@transient val watermark: EventTimeWatermarkExec)
    extends UnaryExecNode {
  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = child.outputOrdering

  override protected def doExecute(): RDD[InternalRow] = child.execute()

  // An exchange is compared with others together with the exchanges below it.
  override protected def doCanonicalize(): SparkPlan = child.canonicalized

  override protected def otherCopyArgs: Seq[AnyRef] = Seq(watermark)

  override protected def withNewChildInternal(newChild: SparkPlan): SparkPlan = newChild match {
    case reused: ReusedExchangeExec =>
      new ReusedWatermarkExec(watermark.nodeId, watermark.eventTime, watermark.delay, reused)
    case _ => copy(child = newChild)(watermark)
  }
}

/** The rows of an exchange elsewhere in the plan, and a sign that a watermark node is below that exchange:
  * the node is one of Spark's watermark nodes, which Spark looks for among a plan's children. It sees no row,
  * so it adds no event time to those of the node that it stands for.
  */
final class ReusedWatermarkExec(
    nodeId: UUID,
    eventTime: Attribute,
    delay: CalendarInterval,
    child: SparkPlan
) extends EventTimeWatermarkExec(nodeId, eventTime, delay, child) {
  override def nodeName: String = "ReusedWatermark"

  // Spark's node would mark this one column as the event time, and the child may have marked others.
  override val output: Seq[Attribute] = child.output

  override protected def doExecute(): RDD[InternalRow] = child.execute()
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = child.outputOrdering
  override protected def doCanonicalize(): SparkPlan = child.canonicalized

  override def copy(
      nodeId: UUID,
      eventTime: Attribute,
      delay: CalendarInterval,
      child: SparkPlan
  ): ReusedWatermarkExec = new ReusedWatermarkExec(nodeId, eventTime, delay, child)
  override protected def withNewChildInternal(newChild: SparkPlan): ReusedWatermarkExec =
    copy(nodeId, eventTime, delay, newChild)

  override def canEqual(other: Any): Boolean = other.isInstanceOf[ReusedWatermarkExec]
  override def equals(other: Any): Boolean = super.equals(other)
  override def hashCode: Int = super.hashCode
}
