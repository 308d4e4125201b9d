package org.apache.spark.sql.tailrace

import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.adaptive.{AdaptiveSparkPlanExec, QueryStageExec}
import org.apache.spark.sql.execution.exchange.ReusedExchangeExec

/** The plan of a micro-batch as it has run: also what adaptive execution and the reuse of exchanges keep out of a node's
  * children.
  */
object StreamingPlan {

  /** The nodes whose rows a node reads. */
  def inputs(plan: SparkPlan): Seq[SparkPlan] = plan match {
    case adaptive: AdaptiveSparkPlanExec => Seq(adaptive.executedPlan)
    case stage: QueryStageExec => Seq(stage.plan)
    case reused: ReusedExchangeExec => Seq(reused.child)
    case other => other.children
  }

  /** A node, and all whose rows it reads, over any number of others. */
  def nodes(plan: SparkPlan): Seq[SparkPlan] = plan +: inputs(plan).flatMap(nodes)
}
