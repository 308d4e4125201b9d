package io.tailrace.driver

import java.util.concurrent.atomic.AtomicLong
import java.util.function.LongSupplier

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
    * @param askedMs when its input was asked for, by [[DriverClock]]
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

/** The driver's monotonic clock, for durations. A test sets a clock that it moves itself. */
object DriverClock {
  private val system: LongSupplier = () => System.nanoTime
  @volatile private var source = system
  private val ahead = new AtomicLong

  def nanos: Long = source.getAsLong + ahead.get

  /** Advances it. It never goes back. */
  private[tailrace] def forward(nanos: Long): Unit = ahead.addAndGet(nanos): Unit

  def ms: Long = nanos / 1000000

  /** Runs `body` with another clock, in nanoseconds. */
  private[tailrace] def during[T](clock: LongSupplier)(body: => T): T = {
    source = clock
    try body
    finally source = system
  }
}
