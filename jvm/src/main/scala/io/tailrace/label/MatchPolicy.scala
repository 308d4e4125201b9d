package io.tailrace.label

import io.tailrace.common.Choice

/** Chooses which of a left row's matches come out. Matches are numbered in the order of time, and of content where times are
  * equal. So the choice depends on the data alone, never on the order of arrival or the number of partitions.
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

  /** The match with the least distance in time. Of two equally far, the earlier one. */
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

  /** Whether some rows can be left out before all have been read. */
  def isBound: Boolean = most < Int.MaxValue

  /** Forgets those of the last `count` candidates that can't be in the group, whatever rows come later.
    *
    * @param from position of the first of them; they are in order
    * @return how many are left
    */
  private[tailrace] def keep(candidates: Candidates, from: Int, count: Int, leftTime: Long): Int = {
    val chosen = policy.choose(count, leftTime, i => candidates.time(from + i))
    val left = if (chosen < 0) Math.min(count, most) else 1
    candidates.keep(from, from + Math.max(chosen, 0), left)
    left
  }
}

object MatchBound {
  val None: MatchBound = MatchBound(MatchPolicy.All, Int.MaxValue)

  def of(settings: JoinSettings): MatchBound =
    if (settings.policy == MatchPolicy.All)
      MatchBound(settings.policy, settings.maxMatches.getOrElse(Int.MaxValue))
    else MatchBound(settings.policy, 1)
}
