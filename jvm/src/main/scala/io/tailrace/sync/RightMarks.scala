package io.tailrace.sync

import io.tailrace.state._

/** The marks of right rows that leave in one batch: a mark in joined-right has the row's sequence number, and as
  * its time the version whose run the row is in.
  */
private[sync] final class RightMarks(store: TailraceStateStore, memory: RowMemory, bufferBytes: Long)
    extends AutoCloseable {
  import RightMarks.Nothing

  private val gathered = new FlushingRows(memory, bufferBytes, () => write(): Unit, () => write())
  private val marks: RowBuffer = gathered.rows.prepare()

  def add(version: Long, seq: Long): Unit =
    gathered.append(Nothing, 0, version, seq, Nothing, 0L, 0)

  /** @return whether there were any */
  private def write(): Boolean = !marks.isEmpty && {
    store.addSorted(Seq(SortedRows.all(StoreKind.JoinedRight, marks, 1)))
    marks.clear()
    true
  }

  /** Those of some versions, sorted, to be written with the batch's run. */
  def of(versions: Set[Long]): SortedRows =
    SortedRows.some(StoreKind.JoinedRight, marks, 1, row => versions(marks.time(row)))

  override def close(): Unit = marks.close()
}

private object RightMarks {
  private val Nothing = new Array[Byte](0)
}
