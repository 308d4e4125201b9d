package io.tailrace.sync

import org.apache.spark.util.CollectionAccumulator

import io.tailrace.join.{JoinColumns, StoredJoinPartition, StoredJoinState, StoredJoinTask}
import io.tailrace.state.{RowMemory, StoreKind, TailraceStateStore}

/** The synced join of one partition in one micro-batch. */
private[sync] final class SyncJoinPartition(
    columns: JoinColumns,
    settings: SyncSettings,
    state: StoredJoinState,
    times: SyncTimes,
    bufferBytes: Long,
    joinedThrough: Long,
    held: CollectionAccumulator[SyncHeld]
) extends StoredJoinPartition(state) {

  override protected def task(store: TailraceStateStore, memory: RowMemory): StoredJoinTask =
    new SyncJoinTask(
      SyncTaskContext(columns, settings, store, memory, times, bufferBytes, state.metrics, joinedThrough)
    )

  override protected def leftKinds: Seq[StoreKind] = Seq(StoreKind.HeldLeft)
  override protected def rightKind: StoreKind = StoreKind.HeldRight
  override protected def joinedKind: StoreKind = StoreKind.JoinedRight

  override protected def report(store: TailraceStateStore): Unit = {
    val now = SyncJoinPartition.heldIn(store)
    state.metrics(SyncMetrics.HeldLeft) += now.left
    state.metrics(SyncMetrics.HeldRight) += now.right
    held.add(now)
  }
}

private[sync] object SyncJoinPartition {

  /** What a store holds. Its oldest rows are as old as it says, or newer: rows before them have left, and which is the next
    * one only the files would tell.
    */
  def heldIn(store: TailraceStateStore): SyncHeld = {
    def rows(kind: StoreKind): Long = store.sectionsOf(kind).map(_.section.liveRows).sum
    def oldest(kind: StoreKind, gone: Long): Option[Long] =
      store
        .sectionsOf(kind)
        .map(_.section)
        .filter(_.liveRows > 0)
        .map(section => if (section.minTime > gone) section.minTime else gone + 1)
        .minOption
    SyncHeld(
      store.id.partitionId,
      rows(StoreKind.HeldLeft),
      rows(StoreKind.HeldRight),
      oldest(StoreKind.HeldLeft, store.expiredThrough),
      oldest(StoreKind.HeldRight, store.rightExpiredThrough)
    )
  }
}
