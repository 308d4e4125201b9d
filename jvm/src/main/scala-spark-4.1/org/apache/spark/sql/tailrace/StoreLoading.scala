package org.apache.spark.sql.tailrace

import org.apache.spark.sql.execution.streaming.state.{StateStore, StateStoreProvider}

/** Loads a version of a provider's state, from which the next version is made. */
private[tailrace] trait StoreLoading[S <: StateStore] extends StateStoreProvider {

  /** @param empty whether to begin at `version` without rows, whatever the checkpoint has */
  def load(version: Long, checkpointId: Option[String], empty: Boolean): S

  override def getStore(version: Long, stateStoreCkptId: Option[String]): S =
    load(version, stateStoreCkptId, empty = false)
}
