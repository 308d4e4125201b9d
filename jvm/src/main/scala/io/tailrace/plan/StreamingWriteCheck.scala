package io.tailrace.plan

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.streaming.WriteToStreamStatement
import org.apache.spark.sql.tailrace.SparkPlans

import io.tailrace.common.TailraceConf

/** Refuses a streaming query that Tailrace can't run when it is started, in the caller's thread, instead of when its
  * first batch is planned. A hint rule, because those come first: the statement that still knows output mode and trigger
  * is gone as soon as Spark's own resolution has begun.
  *
  * @param ofAll checks of queries without an operator of ours, too
  */
final class StreamingWriteCheck(ofAll: Seq[WriteCheck]) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    plan match {
      case write: WriteToStreamStatement =>
        val nodes = write.inputQuery.collect { case node: TailraceNode => node }
        if (nodes.nonEmpty) {
          WriteModeCheck(write, nodes)
          TailraceConf.check(SparkPlans.activeSetting)
        }
        (nodes.flatMap(_.writeChecks).distinct ++ ofAll).foreach(_(write))
      case _ =>
    }
    plan
  }
}
