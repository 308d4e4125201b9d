package org.apache.spark.sql.tailrace

import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.execution.streaming.state.{StateStoreInstanceMetric, StateStoreProvider}

/** A provider's background maintenance. Minor versions of Spark use different names for it, and do nothing for a
  * provider that has only another version's name.
  */
private[tailrace] trait StateUpkeep extends StateStoreProvider {

  /** Compacts, and removes what no retained version needs. Spark's thread calls it again and again. */
  def maintain(): Unit

  override def doMaintenance(): Unit = maintain()
}

/** An operator without metrics of single stores. Spark would make them for each partition of each of its own stores. */
private[tailrace] trait NoInstanceMetrics extends StateStoreWriter {
  override lazy val instanceMetrics: Map[StateStoreInstanceMetric, SQLMetric] = Map.empty
}
