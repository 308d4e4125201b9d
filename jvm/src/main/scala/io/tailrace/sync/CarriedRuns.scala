package io.tailrace.sync

import io.tailrace.state.LiveSection

/** Which runs a batch carries forward: writes what is left of them into its own run, and drops them. It stands in for
  * compaction: it bounds the dead rows that files hold, and the number of files, at a cost that the rows which have died
  * since, or those of the batch, pay for.
  */
object CarriedRuns {

  /** What is left of a run.
    *
    * @param rows  in its sections
    * @param live  of them, those that count
    * @param marks about rows of other runs
    */
  final case class Share(run: String, rows: Long, live: Long, marks: Long)

  def shares(sections: Seq[LiveSection]): Seq[Share] =
    sections.groupBy(_.local.name).toSeq.map { case (name, all) =>
      val (rows, marks) = all.map(_.section).partition(_.kind.hasRows)
      Share(name, rows.map(_.rows).sum, rows.map(_.liveRows).sum, marks.map(_.rows).sum)
    }

  /** A run of which less than one row in so many counts is carried. */
  private val DeadShare = 4

  /** @param most runs that may be there when the batch has added one; beyond that the smallest are carried */
  def choose(shares: Seq[Share], most: Int): Set[String] = {
    val (dead, rest) = shares.partition(s => s.live * DeadShare < s.rows || s.rows == 0)
    val surplus = Math.max(0, rest.size - (most - 1))
    val smallest = rest.sortBy(s => s.live + s.marks).take(surplus)
    (dead ++ smallest).map(_.run).toSet
  }
}
