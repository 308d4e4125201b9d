package io.tailrace.label

/** The right rows of a key that are in a left row's window, read as the window moves on: what is held is one window at a
  * time, and of that no more than the policy can choose from. For keys that have more rows than memory has room for.
  *
  * {{{
  *   right rows   12:00 12:01 12:02 12:03 12:04 ...
  *   left row at 12:01, window 10 min     all: up to 12:11     first: 12:01     max_matches = 2: 12:01 12:02
  *   left row at 12:03                    all: from 12:03 on   first: 12:03     max_matches = 2: 12:03 12:04
  * }}}
  *
  * Of rows of one time the policy wants those that come first by content, or last: they are kept at the end of their time,
  * when all have been seen.
  *
  * @param candidates what a left row can choose from; in order
  */
private[label] final class MatchWindow(bound: MatchBound, candidates: Candidates) {
  import MatchPolicy._

  private var rows: KeyedRows = _
  // Rows at the beginning of the candidates that are before all windows to come.
  private var dead = 0
  private val selection = new MatchSelection(bound, candidates, () => dropDead())

  /** Begins with another key. */
  def start(of: KeyedRows): Unit = {
    rows = of
    candidates.clear()
    dead = 0
  }

  /** Moves on to the window of the next left row; they come in the order of time. */
  def slideTo(leftTime: Long, lower: Long, upper: Long): Unit = {
    while (dead < candidates.size && candidates.time(dead) < lower) dead += 1
    if (dead > candidates.size / 2) dropDead()
    while (!rows.isEmpty && rows.time < lower) rows.advance()
    def isNext = !rows.isEmpty && rows.time <= upper
    bound.policy match {
      case All | First =>
        while (isNext && candidates.size - dead < bound.most) selection.take(rows, leftTime, ofOneTime = true)
      case Last =>
        while (isNext) {
          selection.take(rows, leftTime, ofOneTime = true)
          keepLast(1)
        }
      case Nearest =>
        while (isNext && (candidates.size == 0 || lastTime < leftTime)) {
          selection.take(rows, leftTime, ofOneTime = true)
          if (lastTime <= leftTime) keepLast(1)
        }
        // Behind one that isn't after the left row, an earlier one is never nearest again.
        while (candidates.size > 1 && candidates.time(1) <= leftTime) keepLast(candidates.size - 1)
    }
    candidates.slideTo(lower, upper)
  }

  private def lastTime: Long = candidates.time(candidates.size - 1)

  private def keepLast(count: Int): Unit = {
    candidates.dropFirst(candidates.size - count)
    dead = 0
  }

  private def dropDead(): Unit = {
    candidates.dropFirst(dead)
    dead = 0
  }
}
