package io.tailrace.driver

/** Measures for how long a query has had no input, in one run.
  *
  * {{{
  *   asked at        0 s   10 s   20 s   2 h      2 h 10 s      limit 80 s: one question counts 10 s at the most
  *   input           yes   no     no     no       no
  *   silence         0     10     20     30       40
  * }}}
  *
  * A question is Spark's, whether another micro-batch is needed, when it has just asked the sources. What one of them adds
  * is bounded, as in [[Silence]]: a process that stood still, a source that didn't answer and a long micro-batch are no
  * silence. Nor is the time when the query was down: silence begins with the run, and with each batch that has input.
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

  /** What waits is let out: only another silence of that length lets more out. */
  def beginAnew(): Unit = heard = silence.clockMs

  /** Spark asks whether another batch is needed. @return whether there was no input for too long */
  def asked(nowMs: Long): Boolean = {
    silence.advance(nowMs, goesOn = true): Unit
    silence.isTooLong(heard)
  }
}
