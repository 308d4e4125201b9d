package io.tailrace.driver

/** Detects an operator that has had input for a while and has emitted nothing. An emitted row restarts the
  * measurement.
  *
  * {{{
  *   limit 10 minutes      12:00 input   12:06 input   12:11 input   12:12 input   12:30 a row   12:41 input
  *   due                   -             -             yes           told already  -             -
  * }}}
  *
  * Not for several threads.
  *
  * @param limitMs by [[DriverClock]], like all times here
  */
private[tailrace] final class NoOutput(limitMs: Long) {
  private var since = Option.empty[Long]
  private var hasTold = false
  private var last = -1L

  /** A batch has ended.
    *
    * @param batch one that has been seen already is left out
    * @return for how long there has been input without output, if that is too long and not reported yet
    */
  def after(batch: Long, nowMs: Long, hasInput: Boolean, hasOutput: Boolean): Option[Long] =
    if (batch == last) None
    else {
      last = batch
      if (hasOutput) {
        since = None
        hasTold = false
      } else if (hasInput && since.isEmpty) since = Some(nowMs)
      since.map(nowMs - _).filter(passed => hasInput && !hasTold && passed >= limitMs)
    }

  /** The user has been warned. */
  def told(): Unit = hasTold = true
}
