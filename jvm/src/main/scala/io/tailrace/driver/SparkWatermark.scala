package io.tailrace.driver

/** Spark's watermark, in milliseconds, and a low watermark, in microseconds. A row at Spark's is late, one at ours isn't.
  *
  * {{{
  *   Spark's 12:00:00.000  ->  ours 12:00:00.000001
  *   ours 12:00:00.000001  ->  Spark's 12:00:00.000
  *   ours 12:00:00.000000  ->  Spark's 11:59:59.999
  * }}}
  */
private[tailrace] object SparkWatermark {

  /** Before all event times: of what has read nothing. */
  val Never: Long = Long.MinValue

  /** The last whole millisecond before a time in microseconds. */
  def before(low: Long): Long = Math.floorDiv(low - 1, 1000L)

  /** The first microsecond behind Spark's watermark; [[Never]] for 0, which is none. */
  def after(ms: Long): Long = if (ms <= 0) Never else ms * 1000 + 1
}
