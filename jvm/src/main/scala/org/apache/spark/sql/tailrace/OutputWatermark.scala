package org.apache.spark.sql.tailrace

import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.streaming.operators.stateful.{EventTimeWatermarkExec, StateStoreWriter}

/** How far the rows that come out of a plan are complete, by the rules of Spark's propagation: a watermark node gives the
  * query's watermark, an operator with state what it makes of its input's, any other the least of its inputs'.
  */
object OutputWatermark {

  /** @param origin what watermark nodes give, in milliseconds
    * @return milliseconds; none if there is no watermark below
    */
  def of(plan: SparkPlan, origin: Long): Option[Long] = plan match {
    case _: EventTimeWatermarkExec => Some(origin)
    case operator: StateStoreWriter =>
      if (origin <= 0) Some(0L) else inputs(operator, origin).flatMap(operator.produceOutputWatermark)
    case other => inputs(other, origin)
  }

  /** The watermark of the rows that come out of a micro-batch.
    *
    * @param current  the query's watermark in the batch, in milliseconds
    * @param previous the one of the batch before it: what operators with state have closed by then no row comes out of
    */
  def ofRows(plan: SparkPlan, current: Long, previous: Long): Option[Long] = {
    val hasState = StreamingPlan.nodes(plan).exists(_.isInstanceOf[StateStoreWriter])
    of(plan, if (hasState) Math.min(current, previous) else current)
  }

  private def inputs(plan: SparkPlan, origin: Long): Option[Long] =
    StreamingPlan.inputs(plan).flatMap(of(_, origin)).minOption
}
