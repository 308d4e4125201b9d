package io.tailrace.plan

import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}

import io.tailrace.join.{LabelJoinBatchExec, LabelJoinExec}

/** Logical to physical, and nothing else. Keeps no state: a stream under AQE plans the same node again and again. */
object LabelJoinStrategy extends SparkStrategy {
  override def apply(plan: org.apache.spark.sql.catalyst.plans.logical.LogicalPlan): Seq[SparkPlan] =
    plan match {
      case join: LabelJoin if join.isStreaming =>
        LabelJoinExec(
          join.columns,
          join.settings,
          join.output,
          planLater(join.left),
          planLater(join.right)
        ) :: Nil
      case join: LabelJoin =>
        LabelJoinBatchExec(
          join.columns,
          join.settings,
          join.output,
          planLater(join.left),
          planLater(join.right)
        ) :: Nil
      case _ => Nil
    }
}
