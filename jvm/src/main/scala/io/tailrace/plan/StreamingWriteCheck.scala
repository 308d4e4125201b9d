package io.tailrace.plan

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.streaming.WriteToStreamStatement
import org.apache.spark.sql.execution.streaming.RealTimeTrigger
import org.apache.spark.sql.tailrace.SparkPlans

import io.tailrace.common.{Errors, TailraceConf}

/** Refuses a streaming query that Tailrace can't run when it is started, in the caller's thread, instead of when its
  * first batch is planned. A hint rule, because those come first: the statement that still knows output mode and trigger
  * is gone as soon as Spark's own resolution has begun.
  */
object StreamingWriteCheck extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    plan match {
      case write: WriteToStreamStatement if write.inputQuery.exists(_.isInstanceOf[LabelJoin]) =>
        if (write.trigger.isInstanceOf[RealTimeTrigger]) throw Errors.realTimeModeUnsupported()
        if (!SparkPlans.isAppend(write.outputMode))
          throw Errors.outputModeUnsupported(write.outputMode.toString)
        TailraceConf.check(SparkPlans.activeSetting)
      case _ =>
    }
    plan
  }
}
