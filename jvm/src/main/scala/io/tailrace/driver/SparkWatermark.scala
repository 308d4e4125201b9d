package io.tailrace.driver

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
