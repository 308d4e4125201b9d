package io.tailrace.recursion

import io.tailrace.driver.SparkWatermark

/** How far a watermark may go while rows are going round: no row that is on time becomes late by going round.
  *
  * {{{
  *   the inputs' watermark 12:30, the oldest row in flight 12:10  ->  just before 12:10
  *   the inputs' watermark 12:30, nothing in flight               ->  12:30
  * }}}
  */
object HeldWatermark {

  /** The last whole millisecond at which a row isn't late yet.
    *
    * @param inputs         the watermarks of all inputs, in milliseconds; those that have none yet hold everything
    * @param inFlightMicros the oldest event time that goes round
    * @return milliseconds; none: no watermark yet
    */
  def after(inputs: Seq[Option[Long]], inFlightMicros: Option[Long]): Option[Long] =
    if (inputs.isEmpty || inputs.exists(_.isEmpty)) None
    else {
      val held = inFlightMicros.map(SparkWatermark.before)
      Some((inputs.flatten ++ held).min).filter(_ > 0)
    }
}
