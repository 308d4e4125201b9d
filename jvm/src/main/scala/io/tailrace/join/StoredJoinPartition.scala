package io.tailrace.join

import java.util.concurrent.TimeUnit.NANOSECONDS

import org.apache.spark.TaskContext
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.tailrace._
import org.apache.spark.util.{CollectionAccumulator, SerializableConfiguration}

import io.tailrace.state.{BufferedRows, RowMemory, TailraceStateStore}

/** The join of one partition in one micro-batch: opens the store, runs the task, commits and reports.
  *
  * It is a function by inheritance. Spark would clean a lambda as a closure, and read the byte code of the
  * operator around it with each batch.
  *
  * @param info        says where the state is
  * @param bufferBytes see `spark.tailrace.state.batchBufferBytes`
  */
final class StoredJoinPartition(
    columns: JoinColumns,
    tasks: StoredJoinTasks,
    info: StatefulOperatorStateInfo,
    storeConf: StateStoreConf,
    hadoopConf: Broadcast[SerializableConfiguration],
    metrics: Map[String, SQLMetric],
    checkpointIds: Option[CollectionAccumulator[StatefulOpStateStoreCheckpointInfo]],
    bufferBytes: Long
) extends ((Int, Iterator[InternalRow], Iterator[InternalRow]) => Iterator[InternalRow])
    with Serializable {

  override def apply(
      partition: Int,
      left: Iterator[InternalRow],
      right: Iterator[InternalRow]
  ): Iterator[InternalRow] = {
    val context = TaskContext.get()
    val store = open(partition)
    // Listeners run in reverse order: the store is closed after the join that reads from it.
    context.addTaskCompletionListener[Unit](_ => store.abort())
    val memory = new RowMemory(SparkState.taskMemoryManager(context))
    val join = tasks.task(StoredJoinContext(columns, store, memory, bufferBytes, metrics))
    context.addTaskCompletionListener[Unit](_ => join.close())

    new OutputRows(
      join.output(left, right),
      count => {
        metrics("numOutputRows") += count
        finish(join, store, memory)
      }
    )
  }

  private def open(partition: Int): TailraceStateStore = {
    import BufferedRows.{KeySchema, ValueSchema}
    SparkStores
      .open(info, partition, KeySchema, ValueSchema, storeConf, hadoopConf.value.value)
      .asInstanceOf[TailraceStateStore]
  }

  private def finish(join: StoredJoinTask, store: TailraceStateStore, memory: RowMemory): Unit = {
    metrics("allRemovalsTimeMs") += NANOSECONDS.toMillis(join.expiryNanos) +
      millis { metrics("numRemovedStateRows") += join.expire() }
    // A synced join writes the rows that stay when it removes those that have left.
    metrics("numUpdatedStateRows") += join.rowsKept
    metrics("allUpdatesTimeMs") += NANOSECONDS.toMillis(join.updateNanos)
    metrics("stateMemory") += memory.peakBytes
    // Closes cursors and buffers before the commit, which may delete the files that they read.
    join.close()
    metrics("commitTimeMs") += millis(store.commit())
    val now = store.metrics
    metrics("numTotalStateRows") += now.numKeys
    metrics(JoinMetrics.StateFileBytes) += now.memoryUsedBytes
    metrics("numStateStoreInstances") += 1
    tasks.report(store, metrics)
    metrics(JoinMetrics.StateFiles) += store.files
    metrics(JoinMetrics.LostVersions) += store.load.lostVersions
    metrics(JoinMetrics.ReplacedCopies) += store.takeReplacedCopies()
    metrics(JoinMetrics.LoadedBytes) += store.load.bytes
    metrics(JoinMetrics.LoadTimeMs) += store.load.millis
    metrics(JoinMetrics.LeftStoreBytes) += tasks.leftKinds.map(store.bytesOf).sum
    metrics(JoinMetrics.RightStoreBytes) += store.bytesOf(tasks.rightKind)
    tasks.joinedKinds.foreach(kind => metrics(JoinMetrics.JoinedStoreBytes) += store.bytesOf(kind))
    checkpointIds.foreach(_.add(SparkStores.ids(store)))
  }

  private def millis(body: => Unit): Long = {
    val started = System.nanoTime
    body
    NANOSECONDS.toMillis(System.nanoTime - started)
  }
}
