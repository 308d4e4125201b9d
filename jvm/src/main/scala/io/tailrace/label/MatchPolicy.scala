package io.tailrace.label

import io.tailrace.common.Choice

/** Which of a left row's matches come out. Matches are given by number, sorted by time and, where times are equal, by
  * content: the choice depends on the data alone, never on the order of arrival or the number of partitions.
  */
sealed abstract class MatchPolicy(val name: String) extends Choice {

  /** @param n    how many matches there are, at least one
    * @param time of the i-th
    * @return the number of the chosen one, or -1 for all
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

  /** The least distance in time; of two equally far, the earlier one. */
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
