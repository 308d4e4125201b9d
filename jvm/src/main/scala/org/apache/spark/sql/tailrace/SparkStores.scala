package org.apache.spark.sql.tailrace

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.StructType

/** Spark's RocksDB provider, for a class outside of Spark's packages. */
abstract class SparkRocksDBProvider extends RocksDBStateStoreProvider

/** The settings of a store, for a class outside of Spark's packages. */
abstract class SparkStoreConf(session: SQLConf) extends StateStoreConf(session)

/** Spark's registry of stores, and its files about an operator's state. */
object SparkStores {

  /** The store by which a task makes the next version of a partition's state.
    *
    * @param info of the operator
    * @param conf names the provider
    */
  def open(
      info: StatefulOperatorStateInfo,
      partition: Int,
      keys: StructType,
      values: StructType,
      conf: StateStoreConf,
      hadoopConf: Configuration
  ): StateStore =
    StateStore.get(
      StateStoreProviderId(
        StateStoreId(info.checkpointLocation, info.operatorId, partition),
        info.queryRunId
      ),
      keys,
      values,
      NoPrefixKeyStateEncoderSpec(keys),
      info.storeVersion,
      info.getStateStoreCkptId(partition).map(_.head),
      info.stateSchemaMetadata,
      useColumnFamilies = false,
      conf,
      hadoopConf
    )

  /** The ids of the version that a store has made, as the driver collects them. */
  def ids(store: StateStore): StatefulOpStateStoreCheckpointInfo = {
    val made = store.getStateStoreCheckpointInfo()
    new StatefulOpStateStoreCheckpointInfo(
      made.partitionId,
      made.batchVersion,
      made.stateStoreCkptId.map(Array(_)),
      made.baseStateStoreCkptId.map(Array(_))
    )
  }

  /** Spark's check of the schema file of an operator with one store, which it writes with the first batch. Its errors
    * don't name the file.
    */
  def checkSchema(
      info: StatefulOperatorStateInfo,
      conf: Configuration,
      session: SparkSession,
      keys: StructType,
      values: StructType
  ): StateSchemaValidationResult = {
    val schema = StateStoreColFamilySchema(StateStore.DEFAULT_COL_FAMILY_NAME, 0, keys, 0, values)
    // Schema version 2, whatever Spark's own joins are set to: this is a store of one column family.
    StateSchemaCompatibilityChecker
      .validateAndMaybeEvolveStateSchema(info, conf, List(schema), session.sessionState, 2)
  }

  def schemaFile(info: StatefulOperatorStateInfo): Path = {
    val store =
      StateStoreId(info.checkpointLocation, info.operatorId, StateStore.PARTITION_ID_TO_CHECK_SCHEMA)
    StateSchemaCompatibilityChecker.schemaFile(store.storeCheckpointLocation())
  }

  /** The metadata that Spark writes for an operator with one store when its first batch begins. */
  def metadata(info: StatefulOperatorStateInfo, name: String): OperatorStateMetadata = {
    val store = StateStoreMetadataV1(StateStoreId.DEFAULT_STORE_NAME, 0, info.numPartitions)
    OperatorStateMetadataV1(OperatorInfoV1(info.operatorId, name), Array(store))
  }

  /** Sets another provider in this thread's session, where it has this one: the provider of a checkpoint comes from the
    * checkpoint's offset log.
    */
  def replaceProvider(found: String, by: String): Unit = {
    val conf = SQLConf.get
    if (conf.getConf(SQLConf.STATE_STORE_PROVIDER_CLASS) == found)
      conf.setConf(SQLConf.STATE_STORE_PROVIDER_CLASS, by)
  }

  /** Spark's own provider that keeps state in RocksDB. */
  val RocksDB: String = classOf[RocksDBStateStoreProvider].getName
}
