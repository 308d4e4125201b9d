package io.tailrace.join

import io.tailrace.state._

/** The rows of a time-sorted store after `from` (excluded) up to `through` (included), by time and sequence
  * number, over all its runs. It counts the rows that it gives, per section: they expire with the commit.
  */
final class ExpiringRows(kind: StoreKind, from: Long, through: Long, sections: Seq[LiveSection])
    extends AutoCloseable {

  def this(store: TailraceStateStore, kind: StoreKind, from: Long, through: Long) =
    this(kind, from, through, store.sectionsOf(kind))

  private val rows = new MergedSections(
    if (from >= through) Nil
    else
      sections.filter(live => live.section.minTime <= through && live.section.maxTime > from),
    RunCursor.inOrder(kind.order),
    from,
    through
  )

  def isEmpty: Boolean = rows.isEmpty

  /** True if the oldest row is before, at or after a time and sequence number. */
  def compareHead(time: Long, seq: Long): Int = rows.head.compareTimeAndSeq(time, seq)

  /** The oldest row's place: see [[io.tailrace.state.RowLayout]]. */
  def base: AnyRef = rows.head.base
  def at: Long = rows.head.at

  /** Moves behind the oldest row. */
  def drop(): Unit = rows.drop()

  /** Appends rows to `into` until it is full, or Spark has no more memory for it, or no row is left.
    * Appends at least one row, whatever its size.
    */
  def fill(into: RowBuffer, share: MemoryShare): Unit = {
    var full = false
    while (!rows.isEmpty && !full) {
      full = !into.appendIfRoom(rows.head.base, rows.head.at)
      if (!full) {
        rows.drop()
        full = share.isFull(into.bytes)
      }
    }
  }

  /** The number of rows it has given, of each section that it has read. */
  def taken: Map[LiveSection, Long] = rows.dropped

  override def close(): Unit = rows.close()
}
