package io.tailrace.common

/** The meaning of a watermark W in all operators: rows at or before W are late, and none are expected. Times are
  * microseconds.
  */
trait WatermarkRules {

  /** The watermark that Spark starts with: no row has been seen, so none is late. */
  val NoWatermark: Long = Long.MinValue

  /** Spark's watermark. It begins at the epoch, which means that there is none yet. */
  def ofMillis(watermarkMs: Option[Long]): Long = watermarkMs.filter(_ > 0).fold(NoWatermark)(_ * 1000)

  /** True if a row at `time` is late; a row exactly at the watermark is, as everywhere in Spark. */
  def isLate(time: Long, watermark: Long): Boolean = time <= watermark && watermark != NoWatermark

  /** Stops at the ends of time instead of wrapping round: a window may be as long as time. */
  def saturatingAdd(a: Long, b: Long): Long = {
    val sum = a + b
    // Overflow: both have the sign opposite to that of the sum.
    if (((a ^ sum) & (b ^ sum)) < 0) { if (a < 0) Long.MinValue else Long.MaxValue }
    else sum
  }

  /** Moves a watermark. One that doesn't exist yet stays as it is, and no other is moved there. */
  def behind(watermark: Long, distance: Long): Long =
    if (watermark == NoWatermark) NoWatermark
    else Math.max(NoWatermark + 1, saturatingAdd(watermark, -distance))
}

object WatermarkRules extends WatermarkRules

/** Converts between Spark's watermark, in milliseconds, and a low watermark, in microseconds. A row exactly
  * at Spark's watermark is late. A row exactly at a low watermark is on time.
  *
  * {{{
  *   Spark's 12:00:00.000  ->  ours 12:00:00.000001
  *   ours 12:00:00.000001  ->  Spark's 12:00:00.000
  *   ours 12:00:00.000000  ->  Spark's 11:59:59.999
  * }}}
  */
private[tailrace] object SparkWatermark {

  /** A low watermark before all event times, and the time of a host of which no row has been read. */
  val Never: Long = Long.MinValue

  /** The last whole millisecond before a time in microseconds. */
  def before(low: Long): Long = Math.floorDiv(low - 1, 1000L)

  /** The first microsecond after Spark's watermark; [[Never]] for 0, which is no watermark. */
  def after(ms: Long): Long = if (ms <= 0) Never else ms * 1000 + 1
}
