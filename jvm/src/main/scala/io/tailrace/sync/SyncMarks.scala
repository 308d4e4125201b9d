package io.tailrace.sync

import io.tailrace.state._

/** The marks of a side's rows that leave in one batch: a mark in joined-left or joined-right has the row's sequence
  * number, and as its time the version whose run the row is in.
  *
  * @param kind of the marks
  */
private[sync] final class SyncMarks(
    kind: StoreKind,
    store: TailraceStateStore,
    memory: RowMemory,
    bufferBytes: Long
) extends AutoCloseable {
  import SyncMarks.Nothing

  private val gathered = new FlushingRows(memory, bufferBytes, () => write(): Unit, () => makeRoom())
  private val marks: RowBuffer = gathered.rows

  /** Takes the memory for the first ones now. */
  def prepare(): SyncMarks = {
    marks.prepare(): Unit
    this
  }

  def add(version: Long, seq: Long): Unit =
    gathered.append(Nothing, 0, version, seq, Nothing, 0L, 0)

  /** Keeps the marks that are in a run, which the caller drops: they may be of other runs' rows. */
  def carry(run: LocalRun): Unit =
    store.sectionsOf(kind).filter(_.local eq run).foreach(_.foreachRow(row => add(row.time, row.seq)))

  private def write(): Unit = {
    store.addSorted(Seq(SortedRows.all(kind, marks, 1))): Unit
    marks.clear()
  }

  private def makeRoom(): Boolean = !marks.isEmpty && {
    write()
    true
  }

  /** Those of some versions, sorted, to be written with the batch's run. */
  def of(versions: Set[Long]): SortedRows =
    SortedRows.some(kind, marks, 1, row => versions(marks.time(row)))

  /** Drops sections of marks. @param versions with rows that still count */
  def settle(versions: Set[Long]): Unit = store.settle(
    kind,
    live =>
      if (versions.exists(v => v >= live.section.minTime && v <= live.section.maxTime)) 0L
      else live.section.rows
  )

  override def close(): Unit = marks.close()
}

private object SyncMarks {
  private val Nothing = new Array[Byte](0)
}
