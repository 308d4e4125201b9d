package io.tailrace.label

import io.tailrace.common.Choice

/** Chooses which of a left row's matches are emitted. Matches are numbered by time, and by content where times
  * are equal. So the choice depends on the data alone, never on arrival or the number of partitions.
  */
sealed abstract class MatchPolicy(val name: String) extends Choice {

  /** @param n    how many matches there are, at least one
    * @param time the time of the i-th match
    * @return the number of the chosen match, or -1 for all
    */
  def choose(n: Int, leftTime: Long, time: Int => Long): Int
}

object MatchPolicy {
  case object All extends MatchPolicy("all") {
    override def choose(n: Int, leftTime: Long, time: Int => Long): Int = -1
  }

  case object First extends MatchPolicy("first") {
    override def choose(n: Int, leftTime: Long, time: Int => Long): Int = 0
  }

  case object Last extends MatchPolicy("last") {
    override def choose(n: Int, leftTime: Long, time: Int => Long): Int = n - 1
  }

  /** The match that is nearest in time; the earlier of two that are equally far. */
  case object Nearest extends MatchPolicy("nearest") {
    override def choose(n: Int, leftTime: Long, time: Int => Long): Int = {
      var best = 0
      var i = 1
      while (i < n) {
        if (Math.abs(time(i) - leftTime) < Math.abs(time(best) - leftTime)) best = i
        i += 1
      }
      best
    }
  }

  val values: Seq[MatchPolicy] = Seq(All, First, Last, Nearest)
}

/** The most that a group can hold. Nothing beyond it is kept.
  *
  * @param most elements of a group, at least one
  */
final case class MatchBound(policy: MatchPolicy, most: Int) {

  /** True if some rows can be left out before all have been read. */
  def isBound: Boolean = most < Int.MaxValue
}

object MatchBound {
  val None: MatchBound = MatchBound(MatchPolicy.All, Int.MaxValue)
}
