package io.tailrace.recursion

import io.tailrace.common.Policy

/** Applies the rules of limits and cycles to each row that op returns, and counts.
  *
  * {{{
  *   max_depth = 3, on_limit = "fail":   hop 3 is fed back,         a row of hop 4 is TooDeep
  *   max_depth = 3, on_limit = "drop":   hop 3 is emitted only,     there is no hop 4
  * }}}
  *
  * One judge is for the rows that share a limit: those of a task in a micro-batch.
  */
final class RowJudge(settings: RecursionSettings) {
  import Verdict._

  private val deepest = settings.maxDepth.getOrElse(RecursionSettings.Guard)
  private val isGuard = settings.maxDepth.isEmpty
  private val most = settings.maxRows.getOrElse(Long.MaxValue)
  private val stops = settings.onLimit == Policy.Drop

  private var returnedRows = 0L
  private var stoppedRows = 0L
  private var cycleRows = 0L

  /** Rows that have been emitted. */
  def returned: Long = returnedRows

  /** Rows that a limit has excluded from further iterations, or from the result. */
  def stopped: Long = stoppedRows

  /** Rows that have closed a cycle. */
  def cycles: Long = cycleRows

  /** @param depth       the hop that returned the row, from 1 on
    * @param closesCycle its key is in its path already
    */
  def judge(depth: Int, closesCycle: Boolean): Verdict = {
    if (closesCycle) cycleRows += 1
    if (closesCycle && settings.onCycle != Policy.Mark) {
      if (settings.onCycle == Policy.Fail) Cycle else Dropped
    } else if (depth > deepest && isGuard) Runaway
    // With "drop" the row went round before the query was started again with a lower limit.
    else if (depth > deepest) if (stops) stop() else TooDeep
    else if (returnedRows >= most) if (stops) stop() else TooMany
    else {
      returnedRows += 1
      if (closesCycle) Returned
      else if (stops && depth == deepest && !isGuard) {
        stoppedRows += 1
        Returned
      } else GoesRound
    }
  }

  private def stop(): Verdict = {
    stoppedRows += 1
    Dropped
  }
}

/** @param isReturned the row is emitted
  * @param isFedBack  and op gets it again
  * @param isError    the query ends with an error
  */
sealed abstract class Verdict(val isReturned: Boolean, val isFedBack: Boolean, val isError: Boolean)

object Verdict {
  case object GoesRound extends Verdict(true, true, false)
  case object Returned extends Verdict(true, false, false)
  case object Dropped extends Verdict(false, false, false)

  case object TooDeep extends Verdict(false, false, true)
  case object TooMany extends Verdict(false, false, true)
  case object Cycle extends Verdict(false, false, true)

  /** Deeper than the guard against loops, where the user has set no limit. */
  case object Runaway extends Verdict(false, false, true)
}
