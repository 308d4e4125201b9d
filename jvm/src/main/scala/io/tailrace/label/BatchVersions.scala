package io.tailrace.label

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

/** The versions of the current left row of a join of batch DataFrames, one after the other. All matches of its window are
  * among the candidates; a version has those up to its horizon.
  */
private[label] final class BatchVersions(
    horizons: Horizons,
    change: GroupChange,
    candidates: Candidates
) {
  private var next = horizons.ends.size
  private var left: UnsafeRow = _
  private var leftTime = 0L
  private var first = 0
  private var end = 0
  private var twin = 0

  /** @param from,until the positions of the matches
    * @param of         see [[Matches]]
    */
  def start(row: UnsafeRow, time: Long, from: Int, until: Int, of: Int): Unit = {
    twin = of
    left = row
    leftTime = time
    first = from
    end = until
    next = 0
  }

  /** True if a version has yet to be looked at. */
  def hasNext: Boolean = next < horizons.ends.size

  /** Goes on to the next version.
    *
    * @return how many matches it has, if it is emitted; then `groups` knows its version. Else -1
    */
  def advance(groups: GroupWriter): Int = {
    val number = next
    next += 1
    val count = matchesTo(horizons.ends(number))
    val comesOut = horizons.earlier(number).forall { earlier =>
      val before = matchesTo(earlier)
      change.compare(
        left,
        leftTime,
        Matches(candidates, first, count, count, twin),
        Matches(candidates, first, before, before, twin)
      )
      horizons.emit.comesOut(horizons.isFinal(number), change)
    }
    groups.versionIs(number, hasEarlier = number > 0, changed = number > 0 && change.isChanged)
    if (comesOut) count else -1
  }

  private def matchesTo(horizon: Long): Int =
    candidates.countThrough(first, end, JoinWindow.saturatingAdd(leftTime, horizon))
}
