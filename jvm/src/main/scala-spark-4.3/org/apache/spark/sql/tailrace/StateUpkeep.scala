package org.apache.spark.sql.tailrace

import org.apache.spark.sql.execution.streaming.state.StateStoreProvider

/** A provider's background maintenance. Minor versions of Spark use different names for it, and do nothing for a
  * provider that has only another version's name.
  */
private[tailrace] trait StateUpkeep extends StateStoreProvider {

  /** Compacts, and removes what no retained version needs. Spark's threads call it again and again. */
  def maintain(): Unit

  // Spark's threads call snapshots and cleanups, each in their own time. Ours is one thing.
  override def doCleanupMaintenance(): Unit = maintain()

  // Called once, before a store is unloaded.
  override def doMaintenance(): Unit = maintain()
}

/** An operator without metrics of single stores: only what its tasks report would be among them. */
private[tailrace] trait NoInstanceMetrics extends StateStoreWriter
