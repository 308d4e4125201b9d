package io.tailrace

import org.apache.spark.sql.{SparkSessionExtensions, SparkSessionExtensionsProvider}

import io.tailrace.plan.{LabelJoinStrategy, StreamingWriteCheck, TransformWithStateDelegation}

/** What Tailrace adds to a Spark session, in the order in which a query meets it:
  *
  *   1. [[StreamingWriteCheck]], when a streaming query is started;
  *   1. [[LabelJoinStrategy]], when a plan becomes physical. Extension strategies come before Spark's own;
  *   1. [[TransformWithStateDelegation]], when the physical plan is complete.
  */
class TailraceExtensions extends (SparkSessionExtensions => Unit) {
  override def apply(extensions: SparkSessionExtensions): Unit = {
    extensions.injectHintResolutionRule(_ => StreamingWriteCheck)
    extensions.injectPlannerStrategy(_ => LabelJoinStrategy)
    extensions.injectColumnar(_ => TransformWithStateDelegation)
  }
}

/** Found by Spark through its service file: the jar on the class path is enough. */
class TailraceExtensionsProvider extends SparkSessionExtensionsProvider {
  override def apply(extensions: SparkSessionExtensions): Unit = new TailraceExtensions()(extensions)
}
