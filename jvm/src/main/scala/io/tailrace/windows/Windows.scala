package io.tailrace.windows

import java.time.format.DateTimeFormatter
import java.time.{DateTimeException, Instant, LocalDateTime, ZoneOffset}

import scala.collection.immutable.TreeMap

/** Windows of one width that follow on each other, as Spark's `window` makes them: [start, start + width), so that a row at
  * a window's end is the next window's. Times are microseconds since 1970-01-01 UTC.
  *
  * @param offset how far after that a window starts: 0 to width - 1
  */
final case class Windows(width: Long, offset: Long) {
  require(width > 0 && offset >= 0 && offset < width, s"windows of $width from $offset")

  /** The window that a time is in; also the greatest end of a window that isn't after the time. */
  def start(time: Long): Long =
    Math.subtractExact(time, Math.floorMod(Math.floorMod(time, width) - offset, width))

  /** The last window that a long can tell of has no end. */
  def end(start: Long): Long = if (start > Long.MaxValue - width) Long.MaxValue else start + width

  /** Whether rows of a time land in a window. Others are as rows without a time: sums of such times have no numbers, and
    * other tools no dates.
    */
  def lands(time: Long): Boolean = time >= Windows.Earliest && time < Windows.End

  /** The greatest end of a window that a low watermark closes; none before the first that there can be. */
  def closedBy(low: Long): Option[Long] =
    Option.when(low >= Windows.Earliest)(start(Math.min(low, Windows.End)))
}

object Windows {

  /** The years from 2 to 9998: wherever a window begins, and in whichever time zone, it has a date. */
  val Earliest: Long = micros("0002-01-01T00:00:00Z")
  val End: Long = micros("9999-01-01T00:00:00Z")

  private def micros(time: String): Long = Instant.parse(time).getEpochSecond * 1000000
}

/** A window's start as the name of a directory: ISO 8601 in UTC, of characters that no file system minds, for instance
  * `20260101T120000Z`, or `20260101T120000.500000Z`. Names sort as times do, in the years 0 to 9999.
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

  /** @return none if it is no such name */
  def parse(name: String): Option[Long] = name match {
    case Name(year, month, day, hour, minute, second, fraction) =>
      try {
        val time =
          LocalDateTime.of(year.toInt, month.toInt, day.toInt, hour.toInt, minute.toInt, second.toInt)
        val micros = Option(fraction).fold(0L)(_.toLong)
        Some(
          Math.addExact(
            Math.multiplyExact(time.toEpochSecond(ZoneOffset.UTC), MicrosPerSecond),
            micros
          )
        )
      } catch { case _: DateTimeException | _: ArithmeticException | _: NumberFormatException => None }
    case _ => None
  }
}

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
