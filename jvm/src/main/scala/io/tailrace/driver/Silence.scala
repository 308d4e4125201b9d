package io.tailrace.driver

import java.util.concurrent.atomic.AtomicLong
import java.util.function.LongSupplier

/** Measures for how long parts of a query's inputs (partitions, hosts) have been silent.
  *
  * A part is silent while other parts of any side give rows, and the source has no unread row of it. So
  * silence is measured by a clock that runs only while some part gives rows. Each part has a mark: the
  * clock's time when it last gave a row.
  *
  * {{{
  *   batch           1     2     3            4     5            limit 80 s: a batch counts 10 s at most
  *   asked for at    0 s   5 s   12 s  night  8 h   8 h 4 s
  *   rows of         a b   a     nobody       a     a b
  *   clock           0     5     5            15    19           b's silence: 0, 5, 5, 15, 0
  * }}}
  *
  * What one batch adds to the clock is bounded. So a part is silent for too long only after the others have
  * given rows in [[Silence.Batches]] batches without it. A pause doesn't count much: a time in which no part
  * gave rows, the process was stopped or a source didn't answer is one long step between two batches. Time
  * while the query was down is no step, because the first batch of a run only starts the first one. A dead
  * part is found however seldom the others give rows.
  *
  * Not for several threads.
  *
  * @param limitMs a silence of this length is too long
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
    * @param askedMs when its input was asked for, by [[DriverClock]]
    * @param goesOn  whether any part gave rows in it, or has rows that the query doesn't read just now
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

  /** The time since a part was last heard, in milliseconds. */
  def of(mark: Long): Long = running - mark

  def isTooLong(mark: Long): Boolean = of(mark) >= limitMs
}

object Silence {

  /** The least number of batches with other parts' rows before a part has been silent for too long. */
  val Batches = 8
}

/** True if a part was heard in a batch. */
sealed abstract class Heard

object Heard {

  /** It has given rows, or the source has unread rows of it. */
  case object Yes extends Heard

  /** It has no rows. */
  case object No extends Heard

  /** Unknown: the query doesn't read it just now, or reads less than there is. */
  case object Unknown extends Heard
}

/** The driver's monotonic clock, for durations. A test sets a clock that it moves itself. */
object DriverClock {
  private val system: LongSupplier = () => System.nanoTime
  @volatile private var source = system
  private val ahead = new AtomicLong

  def nanos: Long = source.getAsLong + ahead.get

  /** Moves it on, for good: it never goes back. */
  private[tailrace] def forward(nanos: Long): Unit = ahead.addAndGet(nanos): Unit

  def ms: Long = nanos / 1000000

  /** Runs `body` with another clock, in nanoseconds. */
  private[tailrace] def during[T](clock: LongSupplier)(body: => T): T = {
    source = clock
    try body
    finally source = system
  }
}

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

/** Notices that an operator has had input for a while, and that nothing has come out of it. A row that is emitted
  * begins it anew.
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
    * @return for how long there has been input without output, if that is too long and not told yet
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

  /** Somebody was told. */
  def told(): Unit = hasTold = true
}
