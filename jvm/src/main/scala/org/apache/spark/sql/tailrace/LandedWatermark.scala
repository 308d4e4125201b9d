package org.apache.spark.sql.tailrace

import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.streaming.operators.stateful.{EventTimeWatermarkExec, StateStoreWriter}

/** How far a query is when its sink has taken a batch: no later batch has a row before that.
  *
  * [[OutputWatermark]] is the like for rows on their way: there the batch itself may have older rows.
  */
object LandedWatermark {

  /** @param currentMs Spark's watermark in the batch, in milliseconds
    * @param sourceLow how far a source is after the batch, in microseconds; the least long: nowhere
    * @param after     the first microsecond behind a watermark of Spark's
    * @return microseconds; none if there is no watermark below
    */
  def of(
      plan: SparkPlan,
      currentMs: Long,
      sourceLow: EventTimeWatermarkExec => Long,
      after: Long => Long
  ): Option[Long] =
    plan match {
      case reused: ReusedWatermarkExec => of(reused.child, currentMs, sourceLow, after)
      case watermark: EventTimeWatermarkExec => Some(sourceLow(watermark))
      case operator: StateStoreWriter =>
        // Later rows that come out are after what the operator has closed in the batch.
        OutputWatermark.of(operator, currentMs).map(after)
      case other => StreamingPlan.inputs(other).flatMap(of(_, currentMs, sourceLow, after)).minOption
    }

  /** All watermark nodes. */
  def sources(plan: SparkPlan): Seq[EventTimeWatermarkExec] = StreamingPlan.nodes(plan).collect {
    case watermark: EventTimeWatermarkExec if !watermark.isInstanceOf[ReusedWatermarkExec] => watermark
  }

  def hasState(plan: SparkPlan): Boolean = StreamingPlan.nodes(plan).exists(_.isInstanceOf[StateStoreWriter])
}
