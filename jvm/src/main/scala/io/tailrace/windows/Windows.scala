package io.tailrace.windows

import java.time.format.DateTimeFormatter
import java.time.{DateTimeException, Instant, LocalDateTime, ZoneOffset}

import scala.collection.immutable.TreeMap

/** Tumbling windows as Spark's `window` makes them: [start, start + width). A row at a window's end belongs
  * to the next window. Times are microseconds since 1970-01-01 UTC.
  *
  * @param offset how long after 1970 a window starts: 0 to width - 1
  */
final case class Windows(width: Long, offset: Long) {
  require(width > 0 && offset >= 0 && offset < width, s"windows of $width from $offset")

  /** The start of the window that a time is in. It is also the latest end of a window that isn't after the
    * time.
    */
  def start(time: Long): Long =
    Math.subtractExact(time, Math.floorMod(Math.floorMod(time, width) - offset, width))

  /** Long.MaxValue for the last window, whose end is no long. */
  def end(start: Long): Long = if (start > Long.MaxValue - width) Long.MaxValue else start + width

  /** True if rows of a time land in a window. Others are treated as rows without a time: sums of such times
    * overflow, and other tools can't show them as dates.
    */
  def lands(time: Long): Boolean = time >= Windows.Earliest && time < Windows.End

  /** The latest end of a window that a low watermark closes; none if it closes no window. */
  def closedBy(low: Long): Option[Long] =
    Option.when(low >= Windows.Earliest)(start(Math.min(low, Windows.End)))
}

object Windows {

  /** The years 2 to 9998: the start of a window is a date in each time zone. */
  val Earliest: Long = micros("0002-01-01T00:00:00Z")
  val End: Long = micros("9999-01-01T00:00:00Z")

  private def micros(time: String): Long = Instant.parse(time).getEpochSecond * 1000000
}

/** A window's start as the name of a directory: ISO 8601 in UTC, in characters that all file systems allow.
  * Examples are `20260101T120000Z` and `20260101T120000.500000Z`. In the years 0 to 9999 names sort as times
  * do.
  */
object WindowName {
  private val Seconds = DateTimeFormatter.ofPattern("uuuuMMdd'T'HHmmss")
  private val Name = """([+-]?\d{4,})(\d{2})(\d{2})T(\d{2})(\d{2})(\d{2})(?:\.(\d{6}))?Z""".r
  private val MicrosPerSecond = 1000000L

  def of(start: Long): String = {
    val seconds = Math.floorDiv(start, MicrosPerSecond)
    val micros = Math.floorMod(start, MicrosPerSecond)
    val text = Seconds.format(LocalDateTime.ofEpochSecond(seconds, 0, ZoneOffset.UTC))
    if (micros == 0) s"${text}Z" else f"$text.$micros%06dZ"
  }

  /** @return none if the name is no start of a window */
  def parse(name: String): Option[Long] = name match {
    case Name(year, month, day, hour, minute, second, fraction) =>
      try {
        val time =
          LocalDateTime.of(year.toInt, month.toInt, day.toInt, hour.toInt, minute.toInt, second.toInt)
        val seconds = Math.multiplyExact(time.toEpochSecond(ZoneOffset.UTC), MicrosPerSecond)
        Some(Math.addExact(seconds, Option(fraction).fold(0L)(_.toLong)))
      } catch { case _: DateTimeException | _: ArithmeticException | _: NumberFormatException => None }
    case _ => None
  }
}

/** The open windows with their numbers of rows, and the time up to which all windows are closed.
  *
  * {{{
  *   windows of an hour, rows at 12:05 and 14:10, the low watermark reaches 14:00:
  *   [12:00, 13:00) closes with one row, [13:00, 14:00) with none, [14:00, 15:00) stays open
  * }}}
  *
  * The first window is that of the first row. Windows without rows are closed too: a reader who waits for an
  * hour learns that it is complete and empty.
  *
  * @param through all windows that end at this time or before are closed; none: no window is closed
  * @param rows    the numbers of rows of the open windows, by start
  */
final case class OpenWindows(windows: Windows, through: Option[Long], rows: TreeMap[Long, Long]) {

  /** True if rows of the window with this start are late. */
  def isClosed(start: Long): Boolean = through.exists(windows.end(start) <= _)

  /** @param landed numbers of rows by window. The windows must be open */
  def add(landed: Iterable[(Long, Long)]): OpenWindows =
    copy(rows = landed.foldLeft(rows) { case (all, (start, count)) =>
      require(!isClosed(start), s"the window at $start is closed")
      all.updated(start, all.getOrElse(start, 0L) + count)
    })

  /** Closes the windows that end at a low watermark or before: all rows before it have been read.
    *
    * @return none if no window closes
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

  /** The most windows without rows that close at a time: one wrong year must not make a million directories. */
  val MostEmpty = 1000

  def none(windows: Windows): OpenWindows = OpenWindows(windows, None, TreeMap.empty)
}

/** Windows that close together.
  *
  * @param closed   starts and numbers of rows, in order of time
  * @param left     the state after it
  * @param unmarked if there were too many windows without rows, how many: then none of them is in `closed`
  */
final case class Closing(closed: Seq[(Long, Long)], left: OpenWindows, unmarked: Long)
