package org.apache.spark.sql.tailrace

import org.apache.spark.sql.execution.streaming.state.StateStoreProvider

/** What a provider does in the background. Minor versions of Spark call it by other names, and do nothing for a
  * provider that has another version's name only.
  */
private[tailrace] trait StateUpkeep extends StateStoreProvider {

  /** Compacts, and removes what no retained version needs. Spark's thread calls it again and again. */
  def maintain(): Unit

  override def doMaintenance(): Unit = maintain()
}
