package io.tailrace.recursion

import org.apache.spark.sql.catalyst.plans.logical.{Aggregate, Distinct}
import org.apache.spark.sql.catalyst.streaming.WriteToStreamStatement
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.tailrace.SparkPlans

import io.tailrace.checkpoint.CheckpointLocation
import io.tailrace.plan.WriteCheck

/** Refuses a recursion that can't work in the streaming query that is being started. */
private[recursion] object RecursionWriteCheck extends WriteCheck {
  override def apply(write: WriteToStreamStatement): Unit = {
    val recursions = write.inputQuery.collect { case r: Recursion => r }
    // A frame that is used twice is one recursion.
    val names = recursions.distinct.map(_.settings.name)
    WriteCheck.unique("tailrace.recursively", names)
    recursions.foreach { recursion =>
      if (!SparkPlans.isAppend(write.outputMode) && aggregates(recursion)) {
        throw RecursionErrors.revisions(recursion.settings.name, write.outputMode.toString.toLowerCase)
      }
    }
    recursions.foreach {
      case tap: FeedbackTap if tap.times.nonEmpty && watermarkPolicy.equalsIgnoreCase("max") =>
        throw RecursionErrors.watermarkPolicy(tap.settings.name)
      case _ =>
    }
    CheckpointLocation.of(write).foreach { location =>
      val names = recursions.collect { case tap: FeedbackTap => tap.settings.name }.distinct
      FeedbackLog.check(location, write.hadoopConf, names)
    }
  }

  private def aggregates(recursion: Recursion): Boolean = recursion.exists {
    case aggregate: Aggregate => aggregate.isStreaming
    case distinct: Distinct => distinct.isStreaming
    case _ => false
  }

  private def watermarkPolicy: String =
    SparkPlans
      .activeSetting(SQLConf.STREAMING_MULTIPLE_WATERMARK_POLICY.key)
      .getOrElse(SQLConf.STREAMING_MULTIPLE_WATERMARK_POLICY.defaultValueString)
}
