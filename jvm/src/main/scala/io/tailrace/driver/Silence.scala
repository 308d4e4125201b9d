package io.tailrace.driver

/** For how long the parts of a query's inputs (partitions, hosts) have been silent: the one rule for all of them.
  *
  * A part is silent while others go on, of any side, and nothing of it is unread. So silence is measured by a clock that runs
  * only while somebody gives something, and each part has a mark on it: where the clock was when it was last heard.
  *
  * {{{
  *   batch           1     2     3            4     5            limit 80 s, so a batch counts 10 s at the most
  *   asked for at    0 s   5 s   12 s  night  8 h   8 h 4 s
  *   who gave        a b   a     nobody       a     a b
  *   clock           0     5     5            15    19           b's silence: 0, 5, 5, 15, 0
  * }}}
  *
  * What one batch counts is bounded, so nobody is silent for too long before others have given something in
  * [[Silence.Batches]] batches without it. That is what keeps pauses out: time in which nobody gave anything, in which the
  * process was stopped or a source didn't answer is one long step between two batches. Time while the query was down isn't a
  * step at all, for the first batch of a start only begins one. And a part that is dead is told all the same, however seldom
  * the others give something.
  *
  * Not for several threads.
  *
  * @param limitMs after so much silence it is too long
  * @param startMs the clock as the checkpoint has it. Marks are of the same clock
  */
final class Silence(limitMs: Long, startMs: Long = 0) {
  private var running = startMs
  private var lastMs = Option.empty[Long]

  /** The most that one batch counts, in milliseconds. */
  val mostPerBatchMs: Long = Math.max(1L, limitMs / Silence.Batches)

  /** Time in which somebody gave something, over all starts of the query. For the checkpoint. */
  def clockMs: Long = running

  /** A batch has run.
    *
    * @param askedMs when its input was asked for, by [[DriverClock]]
    * @param goesOn  whether any part gave something in it, or has something that the query doesn't read just now
    * @return how much the clock has gone on
    */
  def advance(askedMs: Long, goesOn: Boolean): Long =
    if (!goesOn) {
      // A start knows from here on what is new.
      if (lastMs.isEmpty) lastMs = Some(askedMs)
      0L
    } else {
      val passed = lastMs.fold(0L)(before => Math.max(0L, Math.min(mostPerBatchMs, askedMs - before)))
      lastMs = Some(askedMs)
      running += passed
      passed
    }

  /** A part's mark after a batch, to be asked when the clock has gone on.
    *
    * @param mark   the one before
    * @param passed what [[advance]] has given for the batch
    */
  def mark(mark: Long, passed: Long, heard: Heard): Long = heard match {
    case Heard.Yes => running
    case Heard.No => mark
    case Heard.Unknown => mark + passed
  }

  /** For how long a part has been silent, in milliseconds. */
  def of(mark: Long): Long = running - mark

  def isTooLong(mark: Long): Boolean = of(mark) >= limitMs
}

object Silence {

  /** A part must be missing in so many batches with others' rows, at the least, before it has been silent for too long. */
  val Batches = 8
}

/** What a batch has heard of a part. */
sealed abstract class Heard

object Heard {

  /** It has given something, or the source has something of it that isn't read yet. */
  case object Yes extends Heard

  /** It has nothing. */
  case object No extends Heard

  /** Nobody can say: the query doesn't read it just now, or reads less than there is. */
  case object Unknown extends Heard
}
