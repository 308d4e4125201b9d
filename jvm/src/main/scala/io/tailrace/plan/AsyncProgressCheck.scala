package io.tailrace.plan

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.tailrace.StreamingRun

import io.tailrace.common.ModeErrors

/** Refuses Spark's asynchronous progress tracking where an operator keeps something by micro-batch: a restart may make other
  * batches of the same data. Who starts a query says it in an option of the writer's, which a statement doesn't have; so it
  * is found out when the first batch is planned, before it has rows.
  */
object AsyncProgressCheck extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = {
    plan match {
      case node: TailraceNode if node.isStreaming && node.keepsBatches =>
        if (StreamingRun.isAsynchronous(SparkSession.active.asInstanceOf[SparkSession]))
          throw ModeErrors.asyncProgress(node.operator)
      case _ =>
    }
    Nil
  }
}
