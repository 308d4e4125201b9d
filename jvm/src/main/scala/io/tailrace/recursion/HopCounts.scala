package io.tailrace.recursion

import io.tailrace.driver.PartitionValue

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
