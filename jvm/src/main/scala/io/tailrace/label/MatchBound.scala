package io.tailrace.label

/** What a group can hold at the most: nothing beyond it need be kept.
  *
  * @param most of a group, at least one
  */
final case class MatchBound(policy: MatchPolicy, most: Int) {

  /** Whether some rows can be left out before all are seen. */
  def isBound: Boolean = most < Int.MaxValue

  /** Forgets those of the last `count` candidates that can't be in the group, whatever else comes.
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
