package io.tailrace.driver

/** Measures for how long parts of a query's inputs (partitions, hosts) have been idle.
  *
  * A part is idle while other parts of any side have rows, and the source has no unread row of it. So idle
  * time is measured by a clock that runs only while some part has rows. Each part has a mark: the clock's
  * time when it last had a row.
  *
  * {{{
  *   batch           1     2     3            4     5            limit 80 s: a batch counts 10 s at most
  *   asked for at    0 s   5 s   12 s  night  8 h   8 h 4 s
  *   rows of         a b   a     nobody       a     a b
  *   clock           0     5     5            15    19           b's idle time: 0, 5, 5, 15, 0
  * }}}
  *
  * The time that one batch adds to the clock is bounded. So a part exceeds the limit only after the others have
  * had rows in [[Silence.Batches]] batches without it. A pause counts little: a time in which no part had rows,
  * the process was suspended or a source didn't answer is one long step between two batches. Downtime of the
  * query isn't a step, because the first batch of a run only starts the first step. A dead part is detected
  * however rarely the others have rows.
  *
  * Not for several threads.
  *
  * @param limitMs an idle time of this length is too long
  * @param startMs the clock's time in the checkpoint; marks there are of the same clock
  */
final class Silence(limitMs: Long, startMs: Long = 0) {
  private var running = startMs
  private var lastMs = Option.empty[Long]

  /** The most that one batch adds to the clock, in milliseconds. */
  val mostPerBatchMs: Long = Math.max(1L, limitMs / Silence.Batches)

  /** The clock's time, over all runs of the query. For the checkpoint. */
  def clockMs: Long = running

  /** A batch has run.
    *
    * @param askedMs when its input was asked for, by the run's clock
    * @param goesOn  whether any part had rows in it, or has rows that the query doesn't read at the moment
    * @return how far the clock has moved
    */
  def advance(askedMs: Long, goesOn: Boolean): Long =
    if (!goesOn) {
      // The first step begins here.
      if (lastMs.isEmpty) lastMs = Some(askedMs)
      0L
    } else {
      val passed = lastMs.fold(0L)(before => Math.max(0L, Math.min(mostPerBatchMs, askedMs - before)))
      lastMs = Some(askedMs)
      running += passed
      passed
    }

  /** A part's mark after a batch, for which [[advance]] has been called.
    *
    * @param mark   the part's mark before the batch
    * @param passed what [[advance]] has returned for the batch
    */
  def mark(mark: Long, passed: Long, heard: Heard): Long = heard match {
    case Heard.Yes => running
    case Heard.No => mark
    case Heard.Unknown => mark + passed
  }

  /** The time since a part was last active, in milliseconds. */
  def of(mark: Long): Long = running - mark

  def isTooLong(mark: Long): Boolean = of(mark) >= limitMs
}

object Silence {

  /** The minimum number of batches with other parts' rows before a part has been idle for too long. */
  val Batches = 8
}

/** True if a part was active in a batch. */
sealed abstract class Heard

object Heard {

  /** It has given rows, or the source has unread rows of it. */
  case object Yes extends Heard

  /** It has no rows. */
  case object No extends Heard

  /** Unknown: the query doesn't read it at the moment, or reads less than there is. */
  case object Unknown extends Heard
}

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
  * @param limitMs by the run's clock, like all times here
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
  * @param limitMs by the run's clock, like all times here
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
