package io.tailrace.asof

import io.tailrace.common.WatermarkRules
import io.tailrace.common.WatermarkRules.saturatingAdd

/** Defines the right rows that a left row may find, and the time when that is decided. Times and distances are
  * microseconds. A left row at L looks back from its point, L - delay: at right rows from L - delay - maxAge to
  * L - delay, both inclusive. It takes the newest of them.
  *
  * {{{
  *   delay = 1 min, maxAge = 10 min, L = 12:11     point 12:10, right rows from 12:00 to 12:10
  *   W = 12:09   a right row of 12:10 may still arrive: nothing is decided
  *   W = 12:10   none can arrive any longer: the left row is emitted
  * }}}
  *
  * @param maxAge none: any age
  */
final case class AsOfWindow(delay: Long, maxAge: Option[Long]) {

  // Points of earlier left rows would be before the first time.
  private val earliestWithPoint = saturatingAdd(Long.MinValue, delay)

  /** The smallest time if the point would be before it: then [[takes]] refuses each right row. */
  def point(leftTime: Long): Long = saturatingAdd(leftTime, -delay)

  /** True if a left row takes a right row that isn't after [[point]]. */
  def takes(leftTime: Long, rightTime: Long): Boolean =
    leftTime >= earliestWithPoint && rightTime >= oldest(leftTime)

  /** No right row before this time is taken. */
  def oldest(leftTime: Long): Long =
    maxAge.fold(Long.MinValue)(age => saturatingAdd(point(leftTime), -age))

  /** Left rows whose points aren't after the watermark: they have all right rows that they may find. */
  def leftExpiry(watermark: Long): Long = WatermarkRules.behind(watermark, -delay)

  /** The points of future left rows are after this time: each left row is after the watermark. */
  def pointsThrough(watermark: Long): Long = WatermarkRules.behind(watermark, delay)

  /** Right rows up to this time are too old for points after `through`. */
  def rightExpiry(through: Long): Long = maxAge match {
    case Some(age) => WatermarkRules.behind(through, age)
    case None => WatermarkRules.NoWatermark
  }

  /** The watermark at which a right row is too old for any left row; none: only a newer row supersedes it. */
  def leaves(rightTime: Long): Option[Long] =
    maxAge.map(age => saturatingAdd(saturatingAdd(rightTime, age), delay))
}
