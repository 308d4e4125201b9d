package io.tailrace.driver

/** Measures for how long a query has had no input, in one run.
  *
  * {{{
  *   checked at      0 s   10 s   20 s   2 h      2 h 10 s      limit 80 s: one check counts at most 10 s
  *   input           yes   no     no     no       no
  *   idle            0     10     20     30       40
  * }}}
  *
  * Spark checks whether another micro-batch is needed when it has just asked the sources. The time that one check adds
  * is bounded, as in [[Silence]]: a suspended process, a source that didn't answer and a long micro-batch don't count
  * as idle time. Nor does downtime: idle time begins with the run, and again with each batch that has input.
  *
  * Not for several threads.
  *
  * @param limitMs by [[DriverClock]], like all times here
  */
private[tailrace] final class QuietQuery(limitMs: Long) {
  private val silence = new Silence(limitMs)
  private var heard = 0L
  private var last = -1L

  /** A batch begins.
    *
    * @param batch one that has been seen already is left out
    */
  def begins(batch: Long, hasInput: Boolean): Unit = if (batch != last) {
    last = batch
    if (hasInput) heard = silence.clockMs
  }

  /** Notes that buffered rows are flushed: only another idle time of that length flushes more. */
  def beginAnew(): Unit = heard = silence.clockMs

  /** Spark asks whether another batch is needed. @return whether there was no input for too long */
  def asked(nowMs: Long): Boolean = {
    silence.advance(nowMs, goesOn = true): Unit
    silence.isTooLong(heard)
  }
}
