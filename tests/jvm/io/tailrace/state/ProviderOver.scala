package io.tailrace.state

import org.apache.spark.sql.execution.streaming.state.{StateStoreProvider, SupportsFineGrainedReplay}

/** Makes a provider of ours that hands foreign stores to a given one instead of a RocksDB provider of its
  * own.
  */
object ProviderOver {

  def apply(delegate: StateStoreProvider with SupportsFineGrainedReplay): TailraceStateStoreProvider =
    new TailraceStateStoreProvider(() => delegate)
}
