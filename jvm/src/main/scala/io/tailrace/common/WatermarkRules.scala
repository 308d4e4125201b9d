package io.tailrace.common

/** What a watermark W says in all operators: rows at or before W are late and come no more. Times are
  * microseconds.
  */
trait WatermarkRules {

  /** The watermark that Spark starts with: no row has been seen, so none is late. */
  val NoWatermark: Long = Long.MinValue

  /** A watermark of Spark's, which begins at the epoch: that means that there is none yet. */
  def ofMillis(watermarkMs: Option[Long]): Long = watermarkMs.filter(_ > 0).fold(NoWatermark)(_ * 1000)

  /** True if a row at `time` is behind the watermark; the ends count, as everywhere in Spark. */
  def isLate(time: Long, watermark: Long): Boolean = time <= watermark && watermark != NoWatermark

  /** Stops at the ends of time instead of wrapping round: a window may be as long as time. */
  def saturatingAdd(a: Long, b: Long): Long = {
    val sum = a + b
    // Overflow: both have the sign that the sum has not.
    if (((a ^ sum) & (b ^ sum)) < 0) { if (a < 0) Long.MinValue else Long.MaxValue }
    else sum
  }

  /** A watermark that isn't there yet stays where it is, and no other one becomes it. */
  def behind(watermark: Long, distance: Long): Long =
    if (watermark == NoWatermark) NoWatermark
    else Math.max(NoWatermark + 1, saturatingAdd(watermark, -distance))
}

object WatermarkRules extends WatermarkRules
