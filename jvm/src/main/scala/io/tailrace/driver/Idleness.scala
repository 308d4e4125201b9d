package io.tailrace.driver

/** The clock of idle time: it says for how long something has been idle. It runs by the clock of the run, in steps of bounded
  * length, and only while idle time counts. Everything that is idle for too long is judged by one:
  *
  * {{{
  *   what is idle                   the clock runs while                   reset by
  *   a partition of a synced join   some partition of its sides has rows   its own records
  *   a host of a watermark          some source of the query has rows      its own rows
  *   the stream of a label          the same                               its own rows, unread ones too
  *   the query, for idle_timeout    it is asked for batches                input, and rows that are flushed or land
  *   the output of a join           always, in steps of any length         an emitted row; input begins it
  * }}}
  *
  * Parts of inputs (partitions, hosts) are idle while other parts of any side have rows, and the source has no unread row of
  * them. Each part has a mark: the clock's time when it last had a row ([[IdleTime]] for a part on its own).
  *
  * {{{
  *   batch           1     2     3            4     5            limit 80 s: a batch counts 10 s at most
  *   asked for at    0 s   5 s   12 s  night  8 h   8 h 4 s
  *   rows of         a b   a     nobody       a     a b
  *   clock           0     5     5            15    19           b's idle time: 0, 5, 5, 15, 0
  * }}}
  *
  * The time that one batch adds to the clock is bounded. So a part exceeds the limit only after the others have
  * had rows in [[IdleClock.Steps]] batches without it. A pause counts little: a time in which no part had rows,
  * the process was suspended or a source didn't answer is one long step between two batches. Downtime of the
  * query isn't a step, because the first batch of a run only starts the first step. A dead part is detected
  * however rarely the others have rows.
  *
  * Not for several threads.
  *
  * @param limitMs an idle time of this length is too long
  * @param startMs the clock's time in the checkpoint; marks there are of the same clock
  * @param mostPerStepMs the most that one batch, or one check, adds
  */
final class IdleClock(limitMs: Long, startMs: Long, val mostPerStepMs: Long) {
  def this(limitMs: Long, startMs: Long = 0) =
    this(limitMs, startMs, Math.max(1L, limitMs / IdleClock.Steps))

  private var running = startMs
  private var lastMs = Option.empty[Long]

  /** The clock's time, over all runs of the query. For the checkpoint. */
  def nowMs: Long = running

  /** A batch has run, or something has been checked.
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
      val passed = lastMs.fold(0L)(before => Math.max(0L, Math.min(mostPerStepMs, askedMs - before)))
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
  def since(mark: Long): Long = running - mark

  def isTooLong(mark: Long): Boolean = since(mark) >= limitMs
}

object IdleClock {

  /** The minimum number of batches with other parts' rows before a part has been idle for too long. */
  val Steps = 8

  /** One that counts all time, in steps of any length. */
  def withoutBound(limitMs: Long): IdleClock = new IdleClock(limitMs, 0, Long.MaxValue)
}

/** The idle time of one thing, by a clock. */
final class IdleTime(clock: IdleClock) {
  private var mark = clock.nowMs

  /** It is active now. */
  def reset(): Unit = mark = clock.nowMs

  /** A batch has moved the clock. */
  def see(heard: Heard, passed: Long): Unit = mark = clock.mark(mark, passed, heard)

  /** Milliseconds. */
  def ms: Long = clock.since(mark)

  def isTooLong: Boolean = clock.isTooLong(mark)
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

/** For how long a query has had no input, in one run.
  *
  * {{{
  *   checked at      0 s   10 s   20 s   2 h      2 h 10 s      limit 80 s: one check counts at most 10 s
  *   input           yes   no     no     no       no
  *   idle            0     10     20     30       40
  * }}}
  *
  * Spark checks whether another micro-batch is needed when it has just asked the sources. The time that one check adds
  * is bounded: a suspended process, a source that didn't answer and a long micro-batch don't count as idle time. Nor does
  * downtime: idle time begins with the run, and again with each batch that has input.
  *
  * Not for several threads.
  *
  * @param limitMs by the run's clock, like all times here
  */
private[tailrace] final class IdleQuery(limitMs: Long) {
  private val clock = new IdleClock(limitMs)
  private val idle = new IdleTime(clock)
  private var last = -1L

  /** A batch begins.
    *
    * @param batch one that has been seen already is left out
    */
  def begins(batch: Long, hasInput: Boolean): Unit = if (batch != last) {
    last = batch
    if (hasInput) idle.reset()
  }

  /** Notes that buffered rows are flushed: only another idle time of that length flushes more. */
  def beginAnew(): Unit = idle.reset()

  /** Spark asks whether another batch is needed. @return whether there was no input for too long */
  def asked(nowMs: Long): Boolean = {
    clock.advance(nowMs, goesOn = true): Unit
    idle.isTooLong
  }
}

private[tailrace] object IdleQuery {

  /** The argument of all calls that flush, or close, what an idle query has left. */
  val Argument = "idle_timeout"
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
  private val clock = IdleClock.withoutBound(limitMs)
  private val output = new IdleTime(clock)
  private var hasBegun = false
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
      clock.advance(nowMs, goesOn = true): Unit
      if (!hasBegun || hasOutput) output.reset()
      hasBegun = (hasBegun || hasInput) && !hasOutput
      if (hasOutput) hasTold = false
      Option.when(hasBegun && hasInput && !hasTold && output.isTooLong)(output.ms)
    }

  /** The user has been warned. */
  def told(): Unit = hasTold = true
}
