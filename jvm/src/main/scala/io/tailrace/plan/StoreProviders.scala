package io.tailrace.plan

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.tailrace.SparkStateReader

import io.tailrace.state.{BufferedRows, OwnStoreProvider, TailraceStateStoreProvider}

/** Spark's `statestore` source reads the stores of Tailrace's operators through their own provider. */
object OwnStoresInStateReader extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan =
    SparkStateReader.through(plan, BufferedRows.isKeySchema, OwnStoreProvider.conf)
}

/** Before version 0.1 a session with Tailrace had to name [[TailraceStateStoreProvider]], which kept the state of Spark's
  * operators in Spark's RocksDB provider. Spark has written the name into the offset log, and sets it in each query that goes
  * on from there. `transformWithState` accepts RocksDB's provider by its own name only. So a query's first plan sets this
  * name in the query's session, and Spark finds the same files under it.
  */
object PinnedProvider extends SparkStrategy {
  private val RocksDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

  override def apply(plan: LogicalPlan): Seq[SparkPlan] = {
    val conf = SQLConf.get
    val provider = SQLConf.STATE_STORE_PROVIDER_CLASS
    if (plan.isStreaming && conf.getConf(provider) == classOf[TailraceStateStoreProvider].getName)
      conf.setConf(provider, RocksDB)
    Nil
  }
}
