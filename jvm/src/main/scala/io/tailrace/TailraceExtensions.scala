package io.tailrace

import java.util.{Collections, WeakHashMap}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.tailrace.{ScannedPartStrategy, SharedExchanges, SparkStateReader, SparkStores}
import org.apache.spark.sql.{SparkSessionExtensions, SparkSessionExtensionsProvider}

import io.tailrace.asof.AsOfStrategy
import io.tailrace.connect.PendingCall
import io.tailrace.examples.{CountExamplesStrategy, ExampleCounts}
import io.tailrace.join.JoinCheckpoint
import io.tailrace.label.LabelJoinStrategy
import io.tailrace.ops.backfill.BackfillWriteCheck
import io.tailrace.plan.{AsyncProgressCheck, StreamingWriteCheck}
import io.tailrace.recursion.RecursionStrategy
import io.tailrace.replay.{MetadataWriteCheck, ReplayFilterStrategy, ReplayFunctions}
import io.tailrace.state.{BufferedRows, OwnStoreConf, RowShapes, TailraceStateStoreProvider}
import io.tailrace.sync.{SyncJoinStrategy, SyncProgressStrategy, SyncedQueries}
import io.tailrace.tables.TableWriteCheck
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
        new StreamingWriteCheck(
          Seq(MetadataWriteCheck, LandWindowsCheck, TableWriteCheck, BackfillWriteCheck)
        )
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
      extensions.injectPlannerStrategy(ScannedPartStrategy)
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

/** Spark's `statestore` source reads the stores of Tailrace's operators through their own provider.
  *
  * @param storeOf the name of an operator's store, and the schemas of its rows, by its directory and its number of
  *                partitions
  */
private final class OwnStoresInStateReader(storeOf: (Path, Configuration, Int) => (String, RowShapes))
    extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan =
    SparkStateReader.through(plan, BufferedRows.isKeySchema) { (directory, conf, partitions, session) =>
      val (store, shapes) = storeOf(directory, conf, partitions)
      new OwnStoreConf(session, store, shapes)
    }
}

/** Replaces the name of [[TailraceStateStoreProvider]] in old checkpoints. Before version 0.1 a session had
  * to name it for all operators, and it kept the state of Spark's operators in Spark's RocksDB provider.
  * Spark restores the name from the offset log, but `transformWithState` accepts RocksDB's provider by its
  * own name only. So a query's first plan sets this one in the query's session. The files are the same.
  */
private object PinnedProvider extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = {
    if (plan.isStreaming)
      SparkStores.replaceProvider(classOf[TailraceStateStoreProvider].getName, SparkStores.RocksDB)
    Nil
  }
}
