package io.tailrace.state

import java.util.{Comparator, PriorityQueue}

import scala.collection.mutable.ArrayBuffer

/** The rows of several sections in one order. In each section it begins at the [[RunCursor.firstAfter]] of
  * `from`, and ends at the first row after `through`.
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
) extends CursorRows {
  import MergedSections.Source

  private val sources = new ArrayBuffer[Source](sections.size)
  private val later = new PriorityQueue[Source]((a: Source, b: Source) => order.compare(a.cursor, b.cursor))
  private var first: Source = _

  try {
    LiveSection.prepare(sections)
    sections.foreach { live =>
      val source = new Source(live, live.cursor())
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

  private def isDue(source: Source): Boolean = source.cursor.isValid && source.cursor.time <= through

  override def isEmpty: Boolean = first == null
  override def head: RunCursor = first.cursor
  override def headSection: LiveSection = first.live

  /** This row's section is tried first: batches hardly overlap in time. */
  override def drop(): Unit = {
    first.dropped += 1
    first.cursor.next()
    if (!isDue(first)) first = later.poll()
    else if (!later.isEmpty && order.compare(first.cursor, later.peek().cursor) > 0) {
      later.add(first)
      first = later.poll()
    }
  }

  /** The number of rows that have been dropped of each section. */
  def dropped: Map[LiveSection, Long] = sources.iterator.map(s => s.live -> s.dropped).toMap

  override def close(): Unit = sources.foreach(_.cursor.close())
}

private object MergedSections {
  private final class Source(val live: LiveSection, val cursor: RunCursor) {
    var dropped = 0L
  }
}

/** Rows of sections, one after the other, each where it is read. */
private[tailrace] trait CursorRows extends AutoCloseable {
  def isEmpty: Boolean

  /** At the first row that is left, until [[drop]]. Not where there is none. */
  def head: RunCursor

  /** The section that this row is in. */
  def headSection: LiveSection

  /** Goes on to the next row. */
  def drop(): Unit
}
