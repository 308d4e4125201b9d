package io.tailrace.recursion

import io.tailrace.driver.SparkWatermark

/** The watermark of a query while rows go round: a row that is on time must not become late by going round.
  *
  * {{{
  *   the inputs' watermark 12:30, the oldest row in flight 12:10  ->  just before 12:10
  *   the inputs' watermark 12:30, nothing in flight               ->  12:30
  * }}}
  */
object HeldWatermark {

  /** @param inputs         the watermarks of all inputs, in milliseconds; without one the watermark waits
    * @param inFlightMicros the oldest event time that goes round
    * @return the last whole millisecond at which no row is late; none: no watermark yet
    */
  def after(inputs: Seq[Option[Long]], inFlightMicros: Option[Long]): Option[Long] =
    if (inputs.isEmpty || inputs.exists(_.isEmpty)) None
    else Some((inputs.flatten ++ inFlightMicros.map(SparkWatermark.before)).min).filter(_ > 0)
}
