package io.tailrace.state

import java.util.{Comparator, PriorityQueue}

import scala.collection.mutable.ArrayBuffer

/** The rows of several sections in one order, from the first row after `from` on (see
  * [[RunCursor.firstAfter]]). It ends in each section at the first row after `through`.
  *
  * {{{
  *   run 3   12:00:01  12:00:05 ─┐
  *   run 5   12:00:02            ├──>  12:00:01  12:00:02  12:00:03  12:00:05
  *   run 8   12:00:03            ┘
  * }}}
  *
  * @param order the rows of each section are in it
  */
private[tailrace] final class MergedSections(
    sections: Seq[LiveSection],
    order: Comparator[RunCursor],
    from: Long,
    through: Long = Long.MaxValue
) extends AutoCloseable {
  private val sources = new ArrayBuffer[MergedSections.Source](sections.size)
  private val later = new PriorityQueue[MergedSections.Source](
    11,
    (a: MergedSections.Source, b: MergedSections.Source) => order.compare(a.cursor, b.cursor)
  )
  private var first: MergedSections.Source = _

  try {
    sections.foreach { live =>
      val source = new MergedSections.Source(live, live.cursor())
      sources += source
      source.cursor.firstAfter(from)
      if (isDue(source)) later.add(source)
    }
    first = later.poll()
  } catch {
    case e: Throwable =>
      close()
      throw e
  }

  private def isDue(source: MergedSections.Source): Boolean =
    source.cursor.isValid && source.cursor.time <= through

  def isEmpty: Boolean = first == null

  /** At the first of the rows that are left, until [[drop]]. Not for an empty merge. */
  def head: RunCursor = first.cursor

  /** Goes on behind the first row. Stays on its section as long as that has the first row: runs of different
    * batches hardly overlap in time.
    */
  def drop(): Unit = {
    first.dropped += 1
    first.cursor.next()
    if (!isDue(first)) first = later.poll()
    else if (!later.isEmpty && order.compare(first.cursor, later.peek().cursor) > 0) {
      later.add(first)
      first = later.poll()
    }
  }

  /** How many rows have been dropped of each section. */
  def dropped: Map[LiveSection, Long] = sources.iterator.map(s => s.live -> s.dropped).toMap

  override def close(): Unit = sources.foreach(_.cursor.close())
}

private object MergedSections {
  private final class Source(val live: LiveSection, val cursor: RunCursor) {
    var dropped = 0L
  }
}
