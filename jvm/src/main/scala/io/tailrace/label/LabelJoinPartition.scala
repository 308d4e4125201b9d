package io.tailrace.label

import org.apache.spark.util.CollectionAccumulator

import io.tailrace.join.{JoinColumns, StoredJoinPartition, StoredJoinState, StoredJoinTask}
import io.tailrace.state.{RowMemory, StoreKind, TailraceStateStore}

/** What one partition holds back after a batch.
  *
  * @param oldest the event time of the oldest left row that has not come out, in microseconds; none if none waits
  */
private[label] final case class PartitionWaiting(partition: Int, oldest: Option[Long])

/** The label join of one partition in one micro-batch. */
private[label] final class LabelJoinPartition(
    columns: JoinColumns,
    settings: JoinSettings,
    state: StoredJoinState,
    watermark: Long,
    lateWatermark: Long,
    bufferBytes: Long,
    bucketWidth: Long,
    waiting: CollectionAccumulator[PartitionWaiting]
) extends StoredJoinPartition(state) {

  override protected def task(store: TailraceStateStore, memory: RowMemory): StoredJoinTask = {
    val context = JoinTaskContext(
      columns,
      settings,
      store,
      memory,
      watermark,
      lateWatermark,
      bufferBytes,
      bucketWidth,
      state.metrics
    )
    if (!settings.isGrouped) new PairedJoinTask(context)
    else {
      settings.strategy match {
        case MatchStrategy.Lazy => new LazyJoinTask(context)
        case MatchStrategy.Eager => new EagerJoinTask(context)
      }
    }
  }

  override protected def leftKinds: Seq[StoreKind] = Seq(StoreKind.LeftTimeSorted, StoreKind.LeftKeySorted)
  override protected def rightKind: StoreKind = StoreKind.RightKeySorted
  override protected def joinedKind: StoreKind = StoreKind.JoinedIndicator

  override protected def report(store: TailraceStateStore): Unit =
    if (settings.isGrouped) waiting.add(PartitionWaiting(store.id.partitionId, oldestWaiting(store)))

  /** The state says of sections what their oldest row is, of which a part may have come out: those up to the expiry. */
  private def oldestWaiting(store: TailraceStateStore): Option[Long] =
    store
      .sectionsOf(StoreKind.LeftTimeSorted)
      .map(_.section)
      .filter(_.liveRows > 0)
      .map(section => Math.max(section.minTime, settings.window.leftExpiry(watermark) + 1))
      .minOption
}
