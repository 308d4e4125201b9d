package io.tailrace.recursion

import org.apache.spark.sql.catalyst.plans.logical.{Aggregate, Distinct}
import org.apache.spark.sql.tailrace.QueryStart

import io.tailrace.plan.WriteCheck

/** Refuses a recursion that can't work in the streaming query that is being started. */
private[recursion] object RecursionWriteCheck extends WriteCheck {
  override def apply(start: QueryStart): Unit = {
    val recursions = start.plan.collect { case r: Recursion => r }
    // A frame that is used twice is one recursion.
    val names = recursions.distinct.map(_.settings.name)
    WriteCheck.unique("tailrace.recursively", names)
    recursions.foreach { recursion =>
      if (!start.appends && aggregates(recursion)) {
        throw RecursionErrors.revisions(recursion.settings.name, start.outputMode.toLowerCase)
      }
    }
    recursions.foreach {
      case tap: FeedbackTap if tap.times.nonEmpty && start.followsLatestWatermark =>
        throw RecursionErrors.watermarkPolicy(tap.settings.name)
      case _ =>
    }
    start.checkpoint.foreach { location =>
      val names = recursions.collect { case tap: FeedbackTap => tap.settings.name }.distinct
      FeedbackLog.check(location, start.hadoopConf, names)
    }
  }

  private def aggregates(recursion: Recursion): Boolean = recursion.exists {
    case aggregate: Aggregate => aggregate.isStreaming
    case distinct: Distinct => distinct.isStreaming
    case _ => false
  }
}
