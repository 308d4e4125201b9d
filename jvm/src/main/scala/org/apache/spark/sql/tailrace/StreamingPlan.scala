package org.apache.spark.sql.tailrace

import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.adaptive.{AdaptiveSparkPlanExec, QueryStageExec}
import org.apache.spark.sql.execution.exchange.ReusedExchangeExec
import org.apache.spark.sql.execution.streaming.operators.stateful.WatermarkSupport
import org.apache.spark.sql.execution.streaming.operators.stateful.join.StreamingSymmetricHashJoinExec

/** The plan of a micro-batch as it has run. Adaptive execution and the reuse of exchanges hide parts of it
  * from `children`; here they are inputs.
  */
object StreamingPlan {

  /** The nodes whose rows a node reads. */
  def inputs(plan: SparkPlan): Seq[SparkPlan] = plan match {
    case adaptive: AdaptiveSparkPlanExec => Seq(adaptive.executedPlan)
    case stage: QueryStageExec => Seq(stage.plan)
    case reused: ReusedExchangeExec => Seq(reused.child)
    case other => other.children
  }

  /** The nodes of the whole plan. */
  def nodes(plan: SparkPlan): Seq[SparkPlan] = plan +: inputs(plan).flatMap(nodes)

  def watermarkNodes(plan: SparkPlan): Seq[EventTimeWatermarkExec] = nodes(plan).collect {
    case node: EventTimeWatermarkExec if !node.isInstanceOf[ReusedWatermarkExec] => node
  }

  def hasState(plan: SparkPlan): Boolean = nodes(plan).exists(_.isInstanceOf[StateStoreWriter])
}

/** The watermark of the rows that a plan emits, by the rules of Spark's propagation: a watermark node gives the
  * query's watermark, an operator with state computes its own from its input's, any other node gives the minimum
  * of its inputs'.
  */
object OutputWatermark {

  /** @param origin the watermark of the query, in milliseconds
    * @return milliseconds; none if there is no watermark below
    */
  def of(plan: SparkPlan, origin: Long): Option[Long] = plan match {
    case _: EventTimeWatermarkExec => Some(origin)
    case operator: StateStoreWriter =>
      if (origin <= 0) Some(0L) else least(operator)(of(_, origin)).flatMap(operator.produceOutputWatermark)
    case other => least(other)(of(_, origin))
  }

  /** The watermark of the rows that a micro-batch emits.
    *
    * @param current  the query's watermark in the batch, in milliseconds
    * @param previous the query's watermark in the batch before: operators with state have closed up to it
    */
  def ofRows(plan: SparkPlan, current: Long, previous: Long): Option[Long] =
    of(plan, if (StreamingPlan.hasState(plan)) Math.min(current, previous) else current)

  /** The watermark after a batch: no row of a later batch is before it.
    *
    * @param currentMs Spark's watermark in the batch, in milliseconds
    * @param sourceLow a source's watermark after the batch, in microseconds; Long.MinValue: none
    * @param after     the first microsecond after a watermark of Spark
    * @return microseconds; none if there is no watermark below
    */
  def afterBatch(
      plan: SparkPlan,
      currentMs: Long,
      sourceLow: EventTimeWatermarkExec => Long,
      after: Long => Long
  ): Option[Long] = plan match {
    case reused: ReusedWatermarkExec => afterBatch(reused.child, currentMs, sourceLow, after)
    case watermark: EventTimeWatermarkExec => Some(sourceLow(watermark))
    // Its later rows have times after those that it has closed in the batch.
    case operator: StateStoreWriter => of(operator, currentMs).map(after)
    case other => least(other)(afterBatch(_, currentMs, sourceLow, after))
  }

  /** The watermark up to which a Spark operator has closed its state when a batch has ended, in milliseconds; none if
    * it has no state, or closes none.
    */
  def closed(operator: SparkPlan): Option[Long] = operator match {
    case join: StreamingSymmetricHashJoinExec => join.eventTimeWatermarkForEviction
    case other: WatermarkSupport => other.eventTimeWatermarkForEviction
    case _ => None
  }

  private def least(plan: SparkPlan)(watermark: SparkPlan => Option[Long]): Option[Long] =
    StreamingPlan.inputs(plan).flatMap(watermark(_)).minOption
}
