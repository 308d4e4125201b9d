package io.tailrace.join

import java.util.concurrent.TimeUnit.NANOSECONDS

import org.apache.spark.TaskContext
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.execution.streaming.operators.stateful.{
  StatefulOpStateStoreCheckpointInfo,
  StatefulOperatorStateInfo
}
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.tailrace.SparkState
import org.apache.spark.util.{CollectionAccumulator, SerializableConfiguration}

import io.tailrace.state.{BufferedRows, RowMemory, StoreKind, TailraceStateStore}

/** What one partition holds back after a batch.
  *
  * @param oldest the event time of the oldest left row that has not come out, in microseconds; none if none waits
  */
private[join] final case class PartitionWaiting(partition: Int, oldest: Option[Long])

/** The join of one partition in one micro-batch, on an executor: opens the store, runs the task, commits, reports.
  *
  * A function by inheritance: Spark would take a lambda for a closure to be cleaned, and read the byte code of the
  * operator around it with each batch.
  */
private[join] final class LabelJoinPartition(
    columns: JoinColumns,
    settings: JoinSettings,
    stateInfo: StatefulOperatorStateInfo,
    watermark: Long,
    lateWatermark: Long,
    bufferBytes: Long,
    bucketWidth: Long,
    storeConf: StateStoreConf,
    hadoopConf: Broadcast[SerializableConfiguration],
    metrics: Map[String, SQLMetric],
    waiting: CollectionAccumulator[PartitionWaiting],
    checkpointIds: Option[CollectionAccumulator[StatefulOpStateStoreCheckpointInfo]]
) extends ((Int, Iterator[InternalRow], Iterator[InternalRow]) => Iterator[InternalRow])
    with Serializable {

  override def apply(
      partition: Int,
      left: Iterator[InternalRow],
      right: Iterator[InternalRow]
  ): Iterator[InternalRow] = {
    val task = TaskContext.get()
    val store = open(partition)
    // First in, last out: the store goes after the join that reads from it.
    task.addTaskCompletionListener[Unit](_ => store.abort())
    val memory = new RowMemory(SparkState.taskMemoryManager(task))
    val context = JoinTaskContext(
      columns,
      settings,
      store,
      memory,
      watermark,
      lateWatermark,
      bufferBytes,
      bucketWidth,
      metrics
    )
    val join =
      if (!settings.isGrouped) new PairedJoinTask(context)
      else {
        settings.strategy match {
          case MatchStrategy.Lazy => new LazyJoinTask(context)
          case MatchStrategy.Eager => new EagerJoinTask(context)
        }
      }
    task.addTaskCompletionListener[Unit](_ => join.close())

    var outputRows = 0L
    val rows = join.output(left, right).map { row =>
      outputRows += 1
      row: InternalRow
    }
    SparkState.onCompletion(rows) {
      metrics("numOutputRows") += outputRows
      finish(join, store, memory)
    }
  }

  private def open(partition: Int): TailraceStateStore = {
    val id = StateStoreId(stateInfo.checkpointLocation, stateInfo.operatorId, partition)
    val store = StateStore.get(
      StateStoreProviderId(id, stateInfo.queryRunId),
      BufferedRows.KeySchema,
      BufferedRows.ValueSchema,
      NoPrefixKeyStateEncoderSpec(BufferedRows.KeySchema),
      stateInfo.storeVersion,
      stateInfo.getStateStoreCkptId(partition).map(_.head),
      stateInfo.stateSchemaMetadata,
      useColumnFamilies = false,
      storeConf,
      hadoopConf.value.value
    )
    store match {
      case own: TailraceStateStore => own
      case _ => throw io.tailrace.common.Errors.providerMissing(storeConf.providerClass)
    }
  }

  private def finish(join: JoinTask, store: TailraceStateStore, memory: RowMemory): Unit = {
    metrics("numUpdatedStateRows") += join.rowsKept
    metrics("allUpdatesTimeMs") += NANOSECONDS.toMillis(join.updateNanos)
    metrics("allRemovalsTimeMs") += NANOSECONDS.toMillis(join.expiryNanos) +
      millis { metrics("numRemovedStateRows") += join.expire() }
    metrics("stateMemory") += memory.peakBytes
    // Cursors and buffers go before the commit may retire the runs under them.
    join.close()
    metrics("commitTimeMs") += millis(store.commit())
    val now = store.metrics
    metrics("numTotalStateRows") += now.numKeys
    metrics(JoinMetrics.StateFileBytes) += now.memoryUsedBytes
    metrics("numStateStoreInstances") += 1
    if (settings.isGrouped) waiting.add(PartitionWaiting(store.id.partitionId, oldestWaiting(store)))
    metrics(JoinMetrics.StateFiles) += store.files
    metrics(JoinMetrics.LostVersions) += store.lostVersions
    val leftKinds = Seq(StoreKind.LeftTimeSorted, StoreKind.LeftKeySorted)
    metrics(JoinMetrics.LeftStoreBytes) += leftKinds.map(store.bytesOf).sum
    metrics(JoinMetrics.RightStoreBytes) += store.bytesOf(StoreKind.RightKeySorted)
    metrics(JoinMetrics.JoinedStoreBytes) += store.bytesOf(StoreKind.JoinedIndicator)
    checkpointIds.foreach { ids =>
      val info = store.getStateStoreCheckpointInfo()
      ids.add(
        StatefulOpStateStoreCheckpointInfo(
          info.partitionId,
          info.batchVersion,
          info.stateStoreCkptId.map(Array(_)),
          info.baseStateStoreCkptId.map(Array(_))
        )
      )
    }
  }

  /** The state says of sections what their oldest row is, of which a part may have come out: those up to the expiry. */
  private def oldestWaiting(store: TailraceStateStore): Option[Long] =
    store
      .sectionsOf(StoreKind.LeftTimeSorted)
      .map(_.section)
      .filter(_.liveRows > 0)
      .map(section => Math.max(section.minTime, settings.window.leftExpiry(watermark) + 1))
      .minOption

  private def millis(body: => Unit): Long = {
    val started = System.nanoTime
    body
    NANOSECONDS.toMillis(System.nanoTime - started)
  }
}
