package io.tailrace.plan

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.tailrace.{SparkStateReader, SparkStores}

import io.tailrace.state.{BufferedRows, OwnStoreConf, RowShapes, TailraceStateStoreProvider}

/** Spark's `statestore` source reads the stores of Tailrace's operators through their own provider.
  *
  * @param storeOf the name of an operator's store, and the schemas of its rows, by its directory and its number of
  *                partitions
  */
final class OwnStoresInStateReader(storeOf: (Path, Configuration, Int) => (String, RowShapes))
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
object PinnedProvider extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = {
    if (plan.isStreaming)
      SparkStores.replaceProvider(classOf[TailraceStateStoreProvider].getName, SparkStores.RocksDB)
    Nil
  }
}
