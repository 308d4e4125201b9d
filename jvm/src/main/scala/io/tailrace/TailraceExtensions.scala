package io.tailrace

import org.apache.spark.sql.tailrace.SharedExchanges
import org.apache.spark.sql.{SparkSessionExtensions, SparkSessionExtensionsProvider}

import io.tailrace.label.LabelJoinStrategy
import io.tailrace.plan.{AsyncProgressCheck, OwnStoresInStateReader, PinnedProvider, StreamingWriteCheck}
import io.tailrace.recursion.RecursionStrategy
import io.tailrace.replay.{MetadataWriteCheck, ReplayFilterStrategy, ReplayFunctions}
import io.tailrace.sync.{SyncJoinStrategy, SyncProgressStrategy, SyncedQueries}
import io.tailrace.watermark.{HostProgressStrategy, StampWatermarkStrategy, WatermarkFunctions}
import io.tailrace.windows.{LandWindowsCheck, LandWindowsStrategy}

/** Lists the parts that Tailrace adds to a Spark session, in the order in which a query meets it:
  *
  *   1. the functions of [[ReplayFunctions]] and [[WatermarkFunctions]], in SQL and in `call_function`;
  *   1. [[StreamingWriteCheck]], when a streaming query is started, and [[SyncedQueries]], when Spark has checked it;
  *   1. [[OwnStoresInStateReader]], when a batch query reads a checkpoint;
  *   1. [[AsyncProgressCheck]] and [[PinnedProvider]], then [[LabelJoinStrategy]], [[SyncJoinStrategy]], [[SyncProgressStrategy]], [[ReplayFilterStrategy]],
  *     [[HostProgressStrategy]], [[StampWatermarkStrategy]], [[LandWindowsStrategy]] and [[RecursionStrategy]], when a plan
  *     becomes physical. Extension strategies come before Spark's own;
  *   1. [[SharedExchanges]], when the physical plan is complete.
  */
class TailraceExtensions extends (SparkSessionExtensions => Unit) {
  override def apply(extensions: SparkSessionExtensions): Unit = {
    ReplayFunctions.all.foreach(extensions.injectFunction)
    extensions.injectFunction(WatermarkFunctions.parseStamp)
    extensions.injectHintResolutionRule(_ =>
      new StreamingWriteCheck(Seq(MetadataWriteCheck, LandWindowsCheck))
    )
    extensions.injectPostHocResolutionRule(_ => SyncedQueries)
    extensions.injectPostHocResolutionRule(_ => OwnStoresInStateReader)
    extensions.injectPlannerStrategy(_ => AsyncProgressCheck)
    extensions.injectPlannerStrategy(_ => PinnedProvider)
    extensions.injectPlannerStrategy(_ => LabelJoinStrategy)
    extensions.injectPlannerStrategy(_ => SyncJoinStrategy)
    extensions.injectPlannerStrategy(_ => ReplayFilterStrategy)
    extensions.injectPlannerStrategy(HostProgressStrategy)
    extensions.injectPlannerStrategy(_ => StampWatermarkStrategy)
    extensions.injectPlannerStrategy(_ => LandWindowsStrategy)
    extensions.injectPlannerStrategy(RecursionStrategy)
    extensions.injectPlannerStrategy(SyncProgressStrategy)
    extensions.injectColumnar(_ => SharedExchanges)
  }
}

/** Found by Spark through its service file: the jar on the class path is enough. */
class TailraceExtensionsProvider extends SparkSessionExtensionsProvider {
  override def apply(extensions: SparkSessionExtensions): Unit = new TailraceExtensions()(extensions)
}
