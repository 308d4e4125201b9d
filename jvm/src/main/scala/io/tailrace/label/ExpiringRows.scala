package io.tailrace.label

import java.util.PriorityQueue

import io.tailrace.state.{LiveSection, MemoryShare, RowBuffer, RunCursor, StoreKind, TailraceStateStore}

/** The rows of a time-sorted store after `from` (excluded) up to `through` (included), by time and
  * sequence number, over all its runs.
  * Counts per section what it has handed out: those rows expire with the commit.
  */
final class ExpiringRows(store: TailraceStateStore, kind: StoreKind, from: Long, through: Long)
    extends AutoCloseable {
  private final class Source(val live: LiveSection, val cursor: RunCursor) {
    var taken = 0L
  }

  private val sources: Seq[Source] = store
    .sectionsOf(kind)
    .filter(live => live.section.minTime <= through && live.section.maxTime > from)
    .map(live => new Source(live, live.cursor()))

  private val queue =
    new PriorityQueue[Source](
      11,
      (a: Source, b: Source) => a.cursor.compareTimeAndSeq(b.cursor.time, b.cursor.seq)
    )

  sources.foreach { source =>
    source.cursor.firstAfter(from)
    enqueue(source)
  }

  private def isDue(source: Source): Boolean = source.cursor.isValid && source.cursor.time <= through

  private def enqueue(source: Source): Unit = if (isDue(source)) queue.add(source)

  def isEmpty: Boolean = queue.isEmpty

  /** Whether the oldest row is before, at or after a time and sequence number. */
  def compareHead(time: Long, seq: Long): Int = queue.peek().cursor.compareTimeAndSeq(time, seq)

  /** Where the oldest row is: see [[io.tailrace.state.RowLayout]]. */
  def base: AnyRef = queue.peek().cursor.base
  def at: Long = queue.peek().cursor.at

  /** Goes on behind the oldest row. */
  def drop(): Unit = {
    val source = queue.poll()
    advance(source)
    enqueue(source)
  }

  private def advance(source: Source): Unit = {
    source.taken += 1
    source.cursor.next()
  }

  /** Appends rows to `into` until it is full, or Spark has no more memory for it, or no row is left; at least one row,
    * whatever its size.
    */
  def fill(into: RowBuffer, share: MemoryShare): Unit = {
    var full = false
    while (!queue.isEmpty && !full) {
      val source = queue.poll()
      val other = queue.peek()
      // Stays on one run as long as it has the oldest row: runs of different batches hardly overlap in time.
      var more = true
      while (more) {
        full = !append(source, into) || share.isFull(into.bytes)
        more = !full && isDue(source) &&
          (other == null || source.cursor.compareTimeAndSeq(other.cursor.time, other.cursor.seq) < 0)
      }
      enqueue(source)
    }
  }

  private def append(source: Source, into: RowBuffer): Boolean = {
    val appended = into.appendIfRoom(source.cursor.base, source.cursor.at)
    if (appended) advance(source)
    appended
  }

  /** How many rows it has handed out, of each section that it has read. */
  def taken: Map[LiveSection, Long] = sources.iterator.map(s => s.live -> s.taken).toMap

  override def close(): Unit = sources.foreach(_.cursor.close())
}
