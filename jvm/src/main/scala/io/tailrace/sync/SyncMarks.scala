package io.tailrace.sync

import io.tailrace.state._

/** The tombstones of a side's rows that leave in one batch: one in joined-left or joined-right has the row's sequence
  * number, and as its time the version whose run the row is in.
  *
  * @param kind of the tombstones
  */
private[sync] final class SyncMarks(
    kind: StoreKind,
    store: TailraceStateStore,
    memory: RowMemory,
    bufferBytes: Long
) extends AutoCloseable {
  private val rows = kind.marks.get
  private val tombstones = new TombstoneBuffer(store, Seq(kind), memory, bufferBytes, bucketWidth = 1)

  /** Takes the memory for the first ones now. */
  def prepare(): SyncMarks = {
    tombstones.prepare(): Unit
    this
  }

  def add(version: Long, seq: Long): Unit = tombstones.add(rows, version, seq)

  /** Keeps the tombstones that are in a run, which the caller drops: they may be of other runs' rows. */
  def carry(run: LocalRun): Unit =
    store.sectionsOf(kind).filter(_.local eq run).foreach(_.foreachRow(row => add(row.time, row.seq)))

  /** Those of some versions, sorted, to be written with the batch's run. */
  def of(versions: Set[Long]): SortedRows = tombstones.chosen(rows)(versions)

  /** Drops sections of tombstones. @param versions with rows that still count */
  def settle(versions: Set[Long]): Unit = store.settle(
    kind,
    live =>
      if (versions.exists(v => v >= live.section.minTime && v <= live.section.maxTime)) 0L
      else live.section.rows
  )

  override def close(): Unit = tombstones.close()
}
