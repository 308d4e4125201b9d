package io.tailrace.windows

import java.time.format.DateTimeFormatter
import java.time.{DateTimeException, Instant, LocalDateTime, ZoneOffset}

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
