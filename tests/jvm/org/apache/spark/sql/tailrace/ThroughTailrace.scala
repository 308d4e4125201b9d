package org.apache.spark.sql.tailrace

import org.apache.hadoop.conf.Configuration
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types.StructType

import io.tailrace.state.ProviderOver

/** Spark's RocksDB provider, of which every call takes the way through ours: from outside to the Tailrace provider, from
  * there to the real thing. Suites of Spark's that look into their RocksDB provider, and are typed by it, can so run
  * against the delegation without knowing of it.
  */
final class ThroughTailrace extends RocksDBStateStoreProvider {
  private val tailrace = ProviderOver(this)
  private val arrived = ThreadLocal.withInitial[Boolean](() => false)

  private def through[T](tailraces: => T)(sparks: => T): T =
    if (arrived.get) sparks
    else {
      arrived.set(true)
      try tailraces
      finally arrived.set(false)
    }

  /** Suites look for Spark's private member of this name, in the object's own class. */
  def stateMachine: RocksDBStateMachine = {
    val method = classOf[RocksDBStateStoreProvider].getMethods.find(_.getName.endsWith("$$stateMachine")).get
    method.invoke(this).asInstanceOf[RocksDBStateMachine]
  }

  override def getRocksDBStateStore(v: Long): RocksDBStateStore =
    through(tailrace.getStore(v).asInstanceOf[RocksDBStateStore])(super.getRocksDBStateStore(v))

  override def init(
      id: StateStoreId,
      keySchema: StructType,
      valueSchema: StructType,
      keyEncoder: KeyStateEncoderSpec,
      useColumnFamilies: Boolean,
      storeConf: StateStoreConf,
      hadoopConf: Configuration,
      multipleValues: Boolean,
      schemas: Option[StateSchemaProvider]
  ): Unit = through(
    tailrace.init(
      id,
      keySchema,
      valueSchema,
      keyEncoder,
      useColumnFamilies,
      storeConf,
      hadoopConf,
      multipleValues,
      schemas
    )
  )(
    super.init(
      id,
      keySchema,
      valueSchema,
      keyEncoder,
      useColumnFamilies,
      storeConf,
      hadoopConf,
      multipleValues,
      schemas
    )
  )

  override def stateStoreId: StateStoreId = through(tailrace.stateStoreId)(super.stateStoreId)

  override def getStore(v: Long, id: Option[String], forceSnapshot: Boolean, empty: Boolean): StateStore =
    through(tailrace.getStore(v, id, forceSnapshot, empty))(super.getStore(v, id, forceSnapshot, empty))

  override def getReadStore(v: Long, id: Option[String]): StateStore =
    through(tailrace.getReadStore(v, id).asInstanceOf[StateStore])(super.getReadStore(v, id))

  override def upgradeReadStoreToWriteStore(
      read: ReadStateStore,
      v: Long,
      id: Option[String],
      forceSnapshot: Boolean
  ): StateStore =
    through(tailrace.upgradeReadStoreToWriteStore(read, v, id, forceSnapshot))(
      super.upgradeReadStoreToWriteStore(read, v, id, forceSnapshot)
    )

  override def doMaintenance(): Unit = through(tailrace.doMaintenance())(super.doMaintenance())

  override def close(): Unit = through(tailrace.close())(super.close())

  override def supportedCustomMetrics: Seq[StateStoreCustomMetric] =
    through(tailrace.supportedCustomMetrics)(super.supportedCustomMetrics)

  override def supportedInstanceMetrics: Seq[StateStoreInstanceMetric] =
    through(tailrace.supportedInstanceMetrics)(super.supportedInstanceMetrics)

  override def replayStateFromSnapshot(
      snapshot: Long,
      end: Long,
      readOnly: Boolean,
      snapshotId: Option[String],
      endId: Option[String]
  ): StateStore =
    through(tailrace.replayStateFromSnapshot(snapshot, end, readOnly, snapshotId, endId))(
      super.replayStateFromSnapshot(snapshot, end, readOnly, snapshotId, endId)
    )

  override def replayReadStateFromSnapshot(
      snapshot: Long,
      end: Long,
      snapshotId: Option[String],
      endId: Option[String]
  ): ReadStateStore =
    through(tailrace.replayReadStateFromSnapshot(snapshot, end, snapshotId, endId))(
      super.replayReadStateFromSnapshot(snapshot, end, snapshotId, endId)
    )

  override def getStateStoreChangeDataReader(
      start: Long,
      end: Long,
      columnFamily: Option[String],
      endId: Option[String]
  ): StateStoreChangeDataReader =
    through(
      tailrace
        .getStateStoreChangeDataReader(start, end, columnFamily, endId)
        .asInstanceOf[StateStoreChangeDataReader]
    )(super.getStateStoreChangeDataReader(start, end, columnFamily, endId))
}
