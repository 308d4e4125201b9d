package io.tailrace.label

import io.tailrace.state.RowLayout

/** Compares the group of a left row with that of its version before. */
private[label] final class GroupChange(settings: JoinSettings) {
  private val most = settings.maxMatches.getOrElse(Int.MaxValue)
  private var changed = false
  private var empty = true

  /** Whether the group is another one now. */
  def isChanged: Boolean = changed

  /** Whether it was empty. */
  def wasEmpty: Boolean = empty

  def compare(leftTime: Long, now: Matches, before: Matches): Unit = {
    val (nowStart, nowSize) = chosen(leftTime, now)
    val (start, size) = chosen(leftTime, before)
    val isCapped = settings.policy == MatchPolicy.All && size == most
    // Of the same size: the flag of the cap may have changed.
    changed = nowSize != size || (isCapped && (now.matched > most) != (before.matched > most)) || {
      var i = 0
      while (i < size && isSame(now.rows, nowStart + i, before.rows, start + i)) i += 1
      i < size
    }
    empty = size == 0
  }

  /** Where the group begins among the candidates, and its size. */
  private def chosen(leftTime: Long, from: Matches): (Int, Int) = {
    import from.{count, first, matched, rows}
    val one = if (count == 0) -1 else settings.policy.choose(count, leftTime, i => rows.time(first + i))
    if (one >= 0) (first + one, 1) else (first, Math.min(most, matched))
  }

  private def isSame(a: Candidates, i: Int, b: Candidates, j: Int): Boolean =
    RowLayout.compareValues(a.base(i), a.at(i), b.base(j), b.at(j)) == 0
}

/** The matches of a left row: `count` of the candidates, from position `first` on.
  *
  * @param matched how many there are, with those that the policy would never choose
  */
private[label] final case class Matches(rows: Candidates, first: Int, count: Int, matched: Int)

private[label] object Matches {
  def of(merge: SortedMerge): Matches =
    Matches(merge.candidates, merge.candidates.first, merge.candidates.count, merge.matched)
}
