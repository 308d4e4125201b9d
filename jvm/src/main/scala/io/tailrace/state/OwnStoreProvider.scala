package io.tailrace.state

import org.apache.hadoop.conf.Configuration
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.tailrace.SparkRocksDBProvider
import org.apache.spark.sql.types.StructType

import io.tailrace.common.TailraceConf

/** The state store provider of Tailrace's operators. They name it in the configuration that they hand to Spark's registry
  * of stores, whatever the session's provider is: that one belongs to Spark's operators. See `adr/012`.
  *
  * {{{
  *   StoredJoinExec     ── conf(session's) ──> StateStore.get ──> OwnStoreProvider ──> OwnStore: runs and manifests
  *   Spark's operators  ── session's conf ───> StateStore.get ──> HDFSBackedStateStoreProvider or RocksDBStateStoreProvider
  * }}}
  */
final class OwnStoreProvider extends StateStoreProvider {
  private var store: Option[OwnStore] = None
  private var storeId: StateStoreId = _

  override def init(
      stateStoreId: StateStoreId,
      keySchema: StructType,
      valueSchema: StructType,
      keyStateEncoderSpec: KeyStateEncoderSpec,
      useColumnFamilies: Boolean,
      storeConfs: StateStoreConf,
      hadoopConf: Configuration,
      useMultipleValuesPerKey: Boolean,
      stateSchemaProvider: Option[StateSchemaProvider]
  ): Unit = {
    require(BufferedRows.isKeySchema(keySchema), s"$stateStoreId is not a store of Tailrace's: $keySchema")
    storeId = stateStoreId
    SstOptions.configureCache(TailraceConf.BlockCacheBytes.read(key => Option(hadoopConf.get(key))))
    store = Some(new OwnStore(stateStoreId, storeConfs, hadoopConf))
  }

  override def stateStoreId: StateStoreId = storeId

  override def getStore(
      version: Long,
      stateStoreCkptId: Option[String],
      forceSnapshotOnCommit: Boolean,
      loadEmpty: Boolean
  ): TailraceStateStore =
    store
      .getOrElse(throw new IllegalStateException("the provider was not initialised"))
      .store(version, stateStoreCkptId, loadEmpty)

  override def doMaintenance(): Unit = store.foreach(_.maintain())

  override def close(): Unit = store.foreach(_.close())
}

object OwnStoreProvider {

  /** The settings of a store of Tailrace's in a session. */
  def conf(session: SQLConf): StateStoreConf = {
    val own = session.clone()
    own.setConf(SQLConf.STATE_STORE_PROVIDER_CLASS, classOf[OwnStoreProvider].getName)
    new StateStoreConf(own)
  }
}

/** Spark's RocksDB provider under the name that checkpoints from before version 0.1 have in their offset logs. Their Spark
  * operators kept their state in it; without the class, Spark's state reader could not open them.
  */
final class TailraceStateStoreProvider extends SparkRocksDBProvider
