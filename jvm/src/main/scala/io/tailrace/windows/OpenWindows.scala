package io.tailrace.windows

import scala.collection.immutable.TreeMap

/** Which windows are open, with the rows that have landed in them, and up to where all are closed.
  *
  * {{{
  *   rows at 12:05 and 14:10, windows of an hour; the low watermark reaches 14:00:
  *   [12:00, 13:00) closes with a row, [13:00, 14:00) with none, [14:00, 15:00) stays open
  * }}}
  *
  * Windows are counted from the first one that a row has landed in. One without rows is closed too: who waits for an hour
  * is told that it is complete and empty.
  *
  * @param through all windows that end at this time or before are closed; none: none is
  * @param rows    of the open windows, by their start
  */
final case class OpenWindows(windows: Windows, through: Option[Long], rows: TreeMap[Long, Long]) {

  /** Whether a row of the window that begins then comes too late for it. */
  def isClosed(start: Long): Boolean = through.exists(windows.end(start) <= _)

  /** @param landed rows by window, all of them open */
  def add(landed: Iterable[(Long, Long)]): OpenWindows =
    copy(rows = landed.foldLeft(rows) { case (all, (start, count)) =>
      require(!isClosed(start), s"the window at $start is closed")
      all.updated(start, all.getOrElse(start, 0L) + count)
    })

  /** What a low watermark closes: the windows that end at it or before, for all rows before it have been read and rows at
    * it are of a later window.
    *
    * @return none if that closes nothing
    */
  def close(low: Long): Option[Closing] = {
    for {
      until <- windows.closedBy(low)
      from <- through.orElse(rows.headOption.map(_._1)) if from < until
    } yield {
      val (complete, open) = (rows.rangeUntil(until), rows.rangeFrom(until))
      val empty = (until - from) / windows.width - complete.size
      val closed =
        if (empty > OpenWindows.MostEmpty) complete.toSeq
        else (from until until by windows.width).map(start => start -> complete.getOrElse(start, 0L))
      Closing(closed, copy(through = Some(until), rows = open), Math.max(0, empty - OpenWindows.MostEmpty))
    }
  }
}

object OpenWindows {

  /** So many windows without rows are closed at a time: a row of a wrong year shouldn't make a million directories. */
  val MostEmpty = 1000

  def none(windows: Windows): OpenWindows = OpenWindows(windows, None, TreeMap.empty)
}

/** @param closed   starts of windows and their rows, in order of time
  * @param left     what is open still
  * @param unmarked if not 0, there were too many windows without rows, none of which is among the closed
  */
final case class Closing(closed: Seq[(Long, Long)], left: OpenWindows, unmarked: Long)
