package io.tailrace.join

import org.apache.spark.sql.tailrace.QueryStart

import io.tailrace.plan.WriteCheck

/** Refuses the setting with which Spark gives all stateful operators of a query one watermark. A join emits rows behind
  * the watermark of its input, and tells Spark a watermark for them. Without it, an operator downstream of the join drops them.
  */
private[join] final case class OwnWatermark(operator: String) extends WriteCheck {
  override def apply(start: QueryStart): Unit =
    if (!start.hasWatermarkPerOperator) throw JoinErrors.watermarkShared(operator)
}
