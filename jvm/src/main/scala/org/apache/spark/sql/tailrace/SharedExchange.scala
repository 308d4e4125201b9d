package org.apache.spark.sql.tailrace

import java.util.UUID

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, SortOrder}
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.exchange.{Exchange, ReusedExchangeExec}
import org.apache.spark.sql.execution.streaming.operators.stateful.{EventTimeWatermarkExec, StateStoreWriter}
import org.apache.spark.sql.execution.{ColumnarRule, SparkPlan, UnaryExecNode}
import org.apache.spark.unsafe.types.CalendarInterval

/** Keeps the watermark visible where a streaming query with state uses the same rows twice, for instance a DataFrame on
  * both sides of a join: see [[SharedExchangeExec]]. The rows are still shuffled once.
  *
  * A columnar rule, because those come after the rule that gives operators their state and add exchanges, and before the one
  * that finds equal exchanges. Two operators with state are never equal: each has its own state.
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

    /** Those that are there several times, as Spark compares them. */
    private def sharedExchanges(plan: SparkPlan): Set[SparkPlan] = {
      val exchanges = plan.collect { case e: Exchange if watermark(e).nonEmpty => e.canonicalized }
      exchanges.diff(exchanges.distinct).toSet
    }

    private def watermark(plan: SparkPlan): Option[EventTimeWatermarkExec] =
      plan.collectFirst { case w: EventTimeWatermarkExec => w }
  }
}

/** Stands above an exchange of a streaming query that Spark may replace by the rows of an equal one, and passes them. If it
  * does, the node becomes a [[ReusedWatermarkExec]].
  *
  * Spark works out the watermarks of the next batch over the plan of the one before it, and a reused exchange is a leaf of
  * that plan: without this, operators above it have no watermark from the second batch on, and keep their rows for good.
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

/** The rows of an exchange elsewhere in the plan, and the word that a watermark node is below that: Spark's own node of a
  * watermark says it to those who work out watermarks over a plan's children. It sees no row, so it tells Spark's tracker
  * of no event time beside the node that it stands for.
  */
final class ReusedWatermarkExec(
    nodeId: UUID,
    eventTime: Attribute,
    delay: CalendarInterval,
    child: SparkPlan
) extends EventTimeWatermarkExec(nodeId, eventTime, delay, child) {
  override def nodeName: String = "ReusedWatermark"

  // The parent's marks one column as the event time, and there may be others.
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
