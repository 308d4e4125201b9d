package io.tailrace.label

import java.util.PriorityQueue

import io.tailrace.state.{CursorRows, LiveSection, RunCursor}

/** The rows of one key in some key-sorted sections, from `earliest` to `latest`, in the order of time. Each section has
  * them in that order. A section is opened when its time comes: a key with very many rows has them in many sections.
  *
  * {{{
  *   sections    12:00 .. 12:59    13:00 .. 13:59    14:00 .. 14:59
  *   at 13:20    closed            open              still to be opened
  * }}}
  *
  * @param base     a row with the key, which stays where it is
  * @param isHidden whether a row is left out; it is asked when the rows of its section before it are done
  */
private[label] final class SectionRows(
    base: AnyRef,
    at: Long,
    earliest: Long,
    latest: Long,
    sections: Seq[LiveSection],
    isHidden: RunCursor => Boolean
) extends KeyedRows
    with CursorRows
    with AutoCloseable {
  import SectionRows.Source

  private val later = sections
    .filter(live => live.section.maxTime >= earliest && live.section.minTime <= latest)
    .sortBy(_.section.minTime)
    .iterator
    .buffered
  private val queue =
    new PriorityQueue[Source](
      11,
      (a: Source, b: Source) => java.lang.Long.compare(a.cursor.time, b.cursor.time)
    )

  try open()
  catch {
    case e: Throwable =>
      close()
      throw e
  }

  /** Opens the sections that may have the first row. */
  private def open(): Unit =
    while (later.hasNext && (queue.isEmpty || later.head.section.minTime <= time)) {
      val live = later.next()
      val cursor = live.cursor()
      try {
        cursor.seekPageAt(base, at, earliest, 0L)
        while (cursor.isValid && isBefore(cursor)) cursor.next()
        enqueue(new Source(live, cursor))
      } catch {
        case e: Throwable =>
          cursor.close()
          throw e
      }
    }

  private def isBefore(cursor: RunCursor): Boolean = {
    val byKey = cursor.compareKey(base, at)
    byKey < 0 || byKey == 0 && cursor.time < earliest
  }

  private def isDue(cursor: RunCursor): Boolean =
    cursor.isValid && cursor.compareKey(base, at) == 0 && cursor.time <= latest

  private def enqueue(source: Source): Unit = {
    import source.cursor
    while (isDue(cursor) && isHidden(cursor)) cursor.next()
    if (isDue(cursor)) queue.add(source) else cursor.close()
  }

  override def isEmpty: Boolean = queue.isEmpty
  override def time: Long = head.time
  override def head: RunCursor = queue.peek().cursor
  override def headSection: LiveSection = queue.peek().live

  override def addTo(candidates: Candidates): Unit = candidates.add(head.base, head.at)

  override def drop(): Unit = {
    val source = queue.poll()
    source.cursor.next()
    enqueue(source)
    open()
  }

  override def advance(): Unit = drop()

  override def close(): Unit = {
    queue.forEach(_.cursor.close())
    queue.clear()
  }
}

private object SectionRows {
  private final class Source(val live: LiveSection, val cursor: RunCursor)
}
