package io.tailrace.examples

import java.util.{Arrays, HashMap}

/** The credits of events, for one impression after the other. What all touches of an event have in common is found
  * with the first of them: otherwise each impression of a key would go through all touches of each of its events.
  *
  * {{{
  *   impressions of user 1   12:00   12:10   12:30          orders at 12:40 and 12:50
  *   12:00 asks              the weights of three touches for each order: their sum, and what is left for 12:30
  *   12:10, 12:30 ask        one weight for each order
  * }}}
  */
private[examples] final class EventShares(attribution: Attribution) {
  import EventShares._

  private val byTime = new HashMap[Long, Known]
  private val byNumber = new HashMap[Int, Split]
  private var held = 0L
  private var counted = Array.emptyLongArray

  /** @param at      time of the event
    * @param touches in order
    * @param first   number of the first one in whose window the event is, of `n` of them
    * @param mine    the place of one of these
    * @return its credit, in billionths
    */
  def credit(at: Long, touches: Touches, first: Int, n: Int, mine: Int): Long = {
    def ago(touch: Int) = Math.abs(at - touches.time(first + touch))
    attribution match {
      case decay: Attribution.TimeDecay => decay.share(splitOf(decay, at, touches, first, n), n, mine, ago)
      case position: Attribution.Position =>
        position.share(byNumber.computeIfAbsent(n, _ => position.split(n, ago)), n, mine, ago)
      case other => other.credit(n, mine, ago)
    }
  }

  private def splitOf(decay: Attribution.TimeDecay, at: Long, touches: Touches, first: Int, n: Int): Split = {
    val times = touches.times
    val known = byTime.get(at)
    if (known != null && known.isOf(times, first, n)) known.split
    else {
      if (held > MostHeld) {
        byTime.clear()
        held = 0
      }
      held += OfEntry + (if (times eq counted) 0 else times.length)
      counted = times
      val split = decay.split(n, touch => Math.abs(at - times(first + touch)))
      byTime.put(at, Known(times, first, n, split))
      split
    }
  }
}

private object EventShares {
  // In longs, 16 MiB: entries, and the times that they refer to, which those of one impression share.
  private val MostHeld = 1L << 21
  private val OfEntry = 16

  /** @param times of touches, of which the event has `n` from `first` on */
  private final case class Known(times: Array[Long], first: Int, n: Int, split: Split) {

    /** Whether these are the touches. Keys and windows of the next impression may be others. */
    def isOf(others: Array[Long], from: Int, size: Int): Boolean = size == n &&
      (from == first && (others eq times) ||
        Arrays.equals(times, first, first + n, others, from, from + size))
  }
}

/** What the touches of an event have in common.
  *
  * @param sum  of their weights
  * @param last the credit of the last one, in billionths: what rounding leaves is its
  */
private[examples] final case class Split(sum: Double, last: Long)
