package io.tailrace

import java.util.{Collections, WeakHashMap}

import org.apache.spark.sql.tailrace.SharedExchanges
import org.apache.spark.sql.{SparkSessionExtensions, SparkSessionExtensionsProvider}

import io.tailrace.asof.AsOfStrategy
import io.tailrace.connect.PendingCall
import io.tailrace.examples.{CountExamplesStrategy, ExampleCounts}
import io.tailrace.join.JoinCheckpoint
import io.tailrace.label.LabelJoinStrategy
import io.tailrace.plan.{AsyncProgressCheck, OwnStoresInStateReader, PinnedProvider, StreamingWriteCheck}
import io.tailrace.recursion.RecursionStrategy
import io.tailrace.replay.{MetadataWriteCheck, ReplayFilterStrategy, ReplayFunctions}
import io.tailrace.sync.{SyncJoinStrategy, SyncProgressStrategy, SyncedQueries}
import io.tailrace.watermark.{HostProgressStrategy, StampWatermarkStrategy, WatermarkFunctions}
import io.tailrace.windows.{LandWindowsCheck, LandWindowsStrategy}

/** The parts that Tailrace adds to a Spark session, in the order in which a query meets them. Extension
  * strategies come before Spark's own.
  */
class TailraceExtensions extends (SparkSessionExtensions => Unit) {

  /** Adds the parts once: Spark calls it twice if both the service file and `spark.sql.extensions` name it.
    */
  override def apply(extensions: SparkSessionExtensions): Unit =
    if (TailraceExtensions.extended.add(extensions)) {
      // In SQL and in `call_function`.
      ReplayFunctions.all.foreach(extensions.injectFunction)
      extensions.injectFunction(WatermarkFunctions.parseStamp)
      // When a plan of a Spark Connect client is analyzed.
      extensions.injectResolutionRule(PendingCall.Resolve)
      // When a streaming query is started, and when Spark has checked it.
      extensions.injectHintResolutionRule(_ =>
        new StreamingWriteCheck(Seq(MetadataWriteCheck, LandWindowsCheck))
      )
      extensions.injectPostHocResolutionRule(_ => SyncedQueries)
      // Before Spark checks any plan.
      extensions.injectPostHocResolutionRule(_ => ExampleCounts.Names)
      // When a batch query reads a checkpoint.
      extensions.injectPostHocResolutionRule { _ =>
        new OwnStoresInStateReader((directory, conf, partitions) => {
          val checkpoint = JoinCheckpoint.read(directory, conf, 0)
          (checkpoint.layout(partitions, directory).store, checkpoint.shapes)
        })
      }
      // When a plan becomes physical.
      extensions.injectPlannerStrategy(_ => AsyncProgressCheck)
      extensions.injectPlannerStrategy(_ => PinnedProvider)
      extensions.injectPlannerStrategy(_ => LabelJoinStrategy)
      extensions.injectPlannerStrategy(_ => SyncJoinStrategy)
      extensions.injectPlannerStrategy(_ => AsOfStrategy)
      extensions.injectPlannerStrategy(_ => CountExamplesStrategy)
      extensions.injectPlannerStrategy(_ => ReplayFilterStrategy)
      extensions.injectPlannerStrategy(HostProgressStrategy)
      extensions.injectPlannerStrategy(_ => StampWatermarkStrategy)
      extensions.injectPlannerStrategy(_ => LandWindowsStrategy)
      extensions.injectPlannerStrategy(RecursionStrategy)
      extensions.injectPlannerStrategy(SyncProgressStrategy)
      // When the physical plan is complete.
      extensions.injectColumnar(_ => SharedExchanges)
    }
}

private object TailraceExtensions {
  private val extended = Collections.synchronizedSet(
    Collections.newSetFromMap(new WeakHashMap[SparkSessionExtensions, java.lang.Boolean])
  )
}

/** Found by Spark through its service file: the jar on the class path is enough. */
class TailraceExtensionsProvider extends SparkSessionExtensionsProvider {
  override def apply(extensions: SparkSessionExtensions): Unit = new TailraceExtensions()(extensions)
}
