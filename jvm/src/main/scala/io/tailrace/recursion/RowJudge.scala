package io.tailrace.recursion

import io.tailrace.common.Policy
import io.tailrace.driver.PartitionValue

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

/** The counts of a recursion in a micro-batch.
  *
  * @param hops    of each iteration, from the first on: rows emitted, and the time in nanoseconds
  * @param fedBack rows that are input of op again
  * @param stopped rows that a limit has excluded from further iterations
  * @param cycles  rows that closed a cycle
  */
final case class HopCounts(
    hops: Vector[Hop] = Vector.empty,
    fedBack: Long = 0,
    stopped: Long = 0,
    cycles: Long = 0
) extends PartitionValue[HopCounts] {

  /** Only a task that has ended counts. So two runs over one partition have the same rows, unless op gives
    * other rows each time.
    */
  override def max(other: HopCounts): HopCounts = if (other.rows > rows) other else this

  /** The counts of two tasks. They work at the same hop at about the same time, so the longer time counts. */
  def +(other: HopCounts): HopCounts = HopCounts(
    hops.zipAll(other.hops, Hop.None, Hop.None).map { case (a, b) =>
      Hop(a.rows + b.rows, Math.max(a.nanos, b.nanos))
    },
    fedBack + other.fedBack,
    stopped + other.stopped,
    cycles + other.cycles
  )

  def rows: Long = hops.iterator.map(_.rows).sum

  /** The deepest hop that gave rows. */
  def deepest: Int = hops.lastIndexWhere(_.rows > 0) + 1
}

/** @param nanos from its first row to its last, with what the task does with the rows after the recursion */
final case class Hop(rows: Long, nanos: Long)

object Hop {
  val None: Hop = Hop(0, 0)
}
