package org.apache.spark.sql.tailrace

import org.apache.hadoop.conf.Configuration
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types.StructType

/** A version of a state that its operator reads and writes by whole runs of rows. Spark's operations on single rows
  * are refused by name: they would work row by row.
  */
abstract class WholeStateStore extends StateStore with RowOperations {

  /** The rows of the version, each once. */
  protected def storedRows: Iterator[UnsafeRowPair] with AutoCloseable

  /** The number of rows, and the bytes of the version's files. */
  protected def rowCount: Long
  protected def fileBytes: Long

  /** In checkpoint format 2, the ids of the version that `commit` has made, and of the one that it began with. */
  protected def committedId: Option[String]
  protected def baseId: Option[String]

  override def metrics: StateStoreMetrics = StateStoreMetrics(rowCount, fileBytes, Map.empty)

  override def getStateStoreCheckpointInfo(): StateStoreCheckpointInfo =
    StateStoreCheckpointInfo(id.partitionId, version + 1, committedId, baseId)

  override def iterator(colFamilyName: String): StateStoreIterator[UnsafeRowPair] = {
    val rows = storedRows
    new StateStoreIterator(rows, () => rows.close())
  }

  override def release(): Unit = abort()

  // Not all minor versions of Spark have it.
  def allColumnFamilyNames: Set[String] = Set(StateStore.DEFAULT_COL_FAMILY_NAME)
}

/** A provider of such stores. */
abstract class WholeStateProvider[S <: WholeStateStore]
    extends StateStoreProvider
    with StoreLoading[S]
    with StateUpkeep {
  private var ownId: StateStoreId = _

  /** Called once, before anything else.
    *
    * @param keys the schema of the keys that the caller expects
    */
  protected def open(
      id: StateStoreId,
      keys: StructType,
      conf: StateStoreConf,
      hadoopConf: Configuration
  ): Unit

  override def stateStoreId: StateStoreId = ownId

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
    ownId = stateStoreId
    open(stateStoreId, keySchema, storeConfs, hadoopConf)
  }
}

/** Spark's operations on single rows of a store, refused by name. Each minor version of Spark has others. */
private[tailrace] trait RowOperations extends StateStore {

  /** Throws the error that names the operation. */
  protected def refuse(operation: String): Nothing

  override def get(key: UnsafeRow, family: String): UnsafeRow = refuse("get")
  override def valuesIterator(key: UnsafeRow, family: String): Iterator[UnsafeRow] = refuse("valuesIterator")
  override def prefixScan(key: UnsafeRow, family: String): StateStoreIterator[UnsafeRowPair] =
    refuse("prefixScan")
  // Not all minor versions of Spark have these two, so they don't say that they override.
  def prefixScanWithMultiValues(key: UnsafeRow, family: String): StateStoreIterator[UnsafeRowPair] =
    refuse("prefixScanWithMultiValues")
  def iteratorWithMultiValues(family: String): StateStoreIterator[UnsafeRowPair] =
    refuse("iteratorWithMultiValues")
  override def removeColFamilyIfExists(family: String): Boolean = refuse("removeColFamilyIfExists")
  override def createColFamilyIfAbsent(
      family: String,
      keySchema: StructType,
      valueSchema: StructType,
      keyStateEncoderSpec: KeyStateEncoderSpec,
      useMultipleValuesPerKey: Boolean,
      isInternal: Boolean
  ): Unit = refuse("createColFamilyIfAbsent")
  override def put(key: UnsafeRow, value: UnsafeRow, family: String): Unit = refuse("put")
  override def putList(key: UnsafeRow, values: Array[UnsafeRow], family: String): Unit = refuse("putList")
  override def remove(key: UnsafeRow, family: String): Unit = refuse("remove")
  override def merge(key: UnsafeRow, value: UnsafeRow, family: String): Unit = refuse("merge")
  override def mergeList(key: UnsafeRow, values: Array[UnsafeRow], family: String): Unit = refuse("mergeList")
}
