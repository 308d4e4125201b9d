package org.apache.spark.sql.tailrace

import java.io.File
import java.util.UUID
import java.util.concurrent.atomic.AtomicReference
import java.util.concurrent.{Executor, ExecutorService, PriorityBlockingQueue, ThreadPoolExecutor, TimeUnit}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.internal.config.MEMORY_STORAGE_FRACTION
import org.apache.spark.memory.{MemoryManager, MemoryMode, TaskMemoryManager, UnifiedMemoryManager}
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.connector.read._
import org.apache.spark.sql.execution.datasources.v2.state._
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.StructType
import org.apache.spark.storage.TempLocalBlockId
import org.apache.spark.util.{ThreadUtils, Utils}
import org.apache.spark.{SparkEnv, TaskContext}

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
  // Not all minor versions of Spark have these two, so they lack the `override` modifier.
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

/** Spark's scan reads each directory with a number for a name. Directories of a partition that no longer
  * exists, or doesn't exist yet, would have no state.
  */
private[tailrace] final class ScanOfPartitions(all: ScanBuilder, partitions: Int) extends ScanBuilder {
  override def build(): Scan = {
    val scan = all.build()
    new Scan {
      override def readSchema(): StructType = scan.readSchema()
      override def description(): String = scan.description()
      override def toBatch: Batch = {
        val batch = scan.toBatch
        new Batch {
          override def createReaderFactory(): PartitionReaderFactory = batch.createReaderFactory()
          override def planInputPartitions(): Array[InputPartition] = batch.planInputPartitions().filter {
            case one: StateStoreInputPartition => one.partition < partitions
            case _ => true
          }
        }
      }
    }
  }
}

/** Spark's internals that the state engine uses. */
object SparkState {

  /** A new directory on this executor's local disks; Spark deletes it when the JVM ends. */
  def localDirectory(prefix: String): File = Utils.createExecutorLocalTempDir(SparkEnv.get.conf, prefix)

  /** A new directory for this user alone, in one that is there. It stays when the JVM ends. */
  def directoryIn(parent: File, prefix: String): File = Utils.createDirectory(parent.getPath, prefix)

  /** Tells the driver that a version was written; without it Spark's commit validation fails the batch. */
  def reportCommit(version: Long, id: StateStoreId, hadoopConf: Configuration): Unit =
    StateStore.reportCommitToCoordinator(version, id, hadoopConf)

  /** A cached pool of daemon threads: one for each piece of work, and they end when there is none. */
  def threads(name: String): ExecutorService = ThreadUtils.newDaemonCachedThreadPool(name)

  /** A fixed number of daemon threads. */
  def threads(name: String, number: Int): ExecutorService =
    ThreadUtils.newDaemonFixedThreadPool(number, name)

  /** At most this number of daemon threads. They take the smallest of the waiting pieces of work first, which must
    * be comparable.
    */
  def inOrder(name: String, most: Int): Executor = {
    val factory = ThreadUtils.namedThreadFactory(name)
    val waiting = new PriorityBlockingQueue[Runnable]
    val pool = new ThreadPoolExecutor(most, most, 60, TimeUnit.SECONDS, waiting, factory)
    pool.allowCoreThreadTimeOut(true)
    pool
  }

  /** Works on items side by side. When it returns or throws, no thread is running.
    *
    * {{{
    *   items 0 1 2 3, two threads:   0 ─── 2 fails       3 isn't begun; 1 ends; then 2's error is thrown
    *                                 1 ────────── ends
    * }}}
    *
    * @param most the number of threads, at most
    * @throws java.lang.InterruptedException if the caller is interrupted, and so its threads
    */
  def sideBySide[A](name: String, most: Int, items: Seq[A])(work: A => Unit): Unit =
    if (items.sizeIs <= 1) items.foreach(work)
    else {
      val threads = ThreadUtils.newDaemonFixedThreadPool(Math.min(items.size, most), name)
      val failed = new AtomicReference[Throwable]
      def run(item: A): Unit =
        try if (failed.get == null) work(item)
        catch { case e: Throwable => failed.compareAndSet(null, e): Unit }
      try items.foreach(item => threads.execute(() => run(item)))
      catch { case e: Throwable => failed.compareAndSet(null, e): Unit }
      threads.shutdown()
      while (!threads.isTerminated)
        try threads.awaitTermination(1, TimeUnit.DAYS): Unit
        catch {
          case e: InterruptedException =>
            failed.compareAndSet(null, e)
            threads.shutdownNow(): Unit
        }
      Option(failed.get).foreach(throw _)
    }

  /** True if the task of this thread isn't the first one of its partition and batch. */
  def isRetry: Boolean = {
    val task = TaskContext.get()
    task != null && (task.attemptNumber() > 0 || task.stageAttemptNumber() > 0)
  }

  /** Throws if the task has been cancelled. */
  def endIfCancelled(context: TaskContext): Unit = context.killTaskIfInterrupted()

  def taskMemoryManager(context: TaskContext): TaskMemoryManager = context.taskMemoryManager()
}

/** Heap of a process that Spark counts as it counts cached data: it outlives a task. */
final class SparkMemory private (val manager: MemoryManager) {

  /** The bytes of it that tasks never take from cached data. */
  def most: Long = {
    val heap = manager match {
      case unified: UnifiedMemoryManager => unified.maxHeapMemory
      case other => other.maxOnHeapStorageMemory
    }
    (heap * SparkEnv.get.conf.get(MEMORY_STORAGE_FRACTION)).toLong
  }

  /** Takes all of the bytes, or none. Cached data may be dropped for them. */
  def take(bytes: Long): Boolean =
    manager.acquireStorageMemory(TempLocalBlockId(UUID.randomUUID), bytes, MemoryMode.ON_HEAP)

  def giveBack(bytes: Long): Unit = manager.releaseStorageMemory(bytes, MemoryMode.ON_HEAP)
}

object SparkMemory {

  /** That of this process; none where no Spark runs. */
  def here: Option[SparkMemory] = Option(SparkEnv.get).map(env => new SparkMemory(env.memoryManager))
}
