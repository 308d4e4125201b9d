package io.tailrace.state

import org.apache.hadoop.conf.Configuration
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.tailrace.SparkState
import org.apache.spark.sql.types.StructType

import io.tailrace.common.{Errors, TailraceConf}

/** The state store provider of a session. Stores of Tailrace's operators, known by their key schema, are served by its own
  * engine ([[OwnStore]]); every other store is handed to Spark's RocksDB provider unchanged, so that it can be set for a
  * whole session and a query can mix both.
  *
  * {{{
  *   Spark ── init(schema) ──┬─ key schema of BufferedRows ──> OwnStore: runs and manifests
  *                          └─ any other ────────────────> RocksDBStateStoreProvider
  * }}}
  *
  * @param newDelegate makes what serves the other stores, so that a test can stand in between
  */
final class TailraceStateStoreProvider private[state] (
    newDelegate: () => StateStoreProvider with SupportsFineGrainedReplay
) extends StateStoreProvider
    with SupportsFineGrainedReplay {

  /** As Spark makes it. */
  def this() = this(() => SparkState.newRocksDBProvider())

  private var delegate: Option[StateStoreProvider with SupportsFineGrainedReplay] = None
  private var own: Option[OwnStore] = None
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
    storeId = stateStoreId
    if (BufferedRows.isKeySchema(keySchema)) {
      SstOptions.configureCache(TailraceConf.BlockCacheBytes.read(key => Option(hadoopConf.get(key))))
      own = Some(new OwnStore(stateStoreId, storeConfs, hadoopConf))
    } else {
      val rocksDB = newDelegate()
      rocksDB.init(
        stateStoreId,
        keySchema,
        valueSchema,
        keyStateEncoderSpec,
        useColumnFamilies,
        storeConfs,
        hadoopConf,
        useMultipleValuesPerKey,
        stateSchemaProvider
      )
      delegate = Some(rocksDB)
    }
  }

  private def ownStore: OwnStore =
    own.getOrElse(throw new IllegalStateException(s"$storeId is not Tailrace's"))

  override def stateStoreId: StateStoreId = storeId

  override def getStore(
      version: Long,
      stateStoreCkptId: Option[String],
      forceSnapshotOnCommit: Boolean,
      loadEmpty: Boolean
  ): StateStore = delegate match {
    case Some(d) => d.getStore(version, stateStoreCkptId, forceSnapshotOnCommit, loadEmpty)
    case None => ownStore.store(version, stateStoreCkptId, loadEmpty)
  }

  override def getReadStore(version: Long, uniqueId: Option[String]): ReadStateStore =
    delegate.fold(super.getReadStore(version, uniqueId))(_.getReadStore(version, uniqueId))

  override def upgradeReadStoreToWriteStore(
      readStore: ReadStateStore,
      version: Long,
      uniqueId: Option[String],
      forceSnapshotOnCommit: Boolean
  ): StateStore =
    delegate.fold(super.upgradeReadStoreToWriteStore(readStore, version, uniqueId, forceSnapshotOnCommit))(
      _.upgradeReadStoreToWriteStore(readStore, version, uniqueId, forceSnapshotOnCommit)
    )

  override def doMaintenance(): Unit = {
    delegate.foreach(_.doMaintenance())
    own.foreach(_.maintain())
  }

  override def close(): Unit = {
    delegate.foreach(_.close())
    own.foreach(_.close())
  }

  // Asked of an instance that was never initialised: Spark makes one to learn the names for its own operators.
  override def supportedCustomMetrics: Seq[StateStoreCustomMetric] =
    SparkState.newRocksDBProvider().supportedCustomMetrics
  override def supportedInstanceMetrics: Seq[StateStoreInstanceMetric] =
    SparkState.newRocksDBProvider().supportedInstanceMetrics

  private def replayable: StateStoreProvider with SupportsFineGrainedReplay =
    delegate.getOrElse(throw Errors.stateOperationUnsupported("read changes"))

  override def replayStateFromSnapshot(
      snapshotVersion: Long,
      endVersion: Long,
      readOnly: Boolean,
      snapshotVersionStateStoreCkptId: Option[String],
      endVersionStateStoreCkptId: Option[String]
  ): StateStore =
    replayable.replayStateFromSnapshot(
      snapshotVersion,
      endVersion,
      readOnly,
      snapshotVersionStateStoreCkptId,
      endVersionStateStoreCkptId
    )

  override def getStateStoreChangeDataReader(
      startVersion: Long,
      endVersion: Long,
      colFamilyNameOpt: Option[String],
      endVersionStateStoreCkptId: Option[String]
  ): SparkState.ChangeDataReader =
    replayable.getStateStoreChangeDataReader(
      startVersion,
      endVersion,
      colFamilyNameOpt,
      endVersionStateStoreCkptId
    )
}
