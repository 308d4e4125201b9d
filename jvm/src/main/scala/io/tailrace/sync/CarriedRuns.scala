package io.tailrace.sync

import io.tailrace.state.LiveSection

/** Chooses the runs that a batch carries forward: it writes their living rows into its own run, and drops
  * them. This is done in place of compaction. It bounds the dead rows in files, and the number of files; the
  * cost is proportional to the rows that have died since, or to those of the batch.
  */
object CarriedRuns {

  /** The contents of a run.
    *
    * @param rows  in its sections
    * @param live  those of them that still count
    * @param marks about rows of other runs
    */
  final case class Share(run: String, rows: Long, live: Long, marks: Long)

  def shares(sections: Seq[LiveSection]): Seq[Share] =
    sections.groupBy(_.local.name).toSeq.map { case (name, all) =>
      val (rows, marks) = all.map(_.section).partition(_.kind.hasRows)
      Share(name, rows.map(_.rows).sum, rows.map(_.liveRows).sum, marks.map(_.rows).sum)
    }

  /** A run is carried if less than one row in so many is alive. */
  private val DeadShare = 4

  /** @param most runs that may exist after the batch has added one; beyond that the smallest are carried */
  def choose(shares: Seq[Share], most: Int): Set[String] = {
    val (dead, rest) = shares.partition(s => s.live * DeadShare < s.rows || s.rows == 0)
    val surplus = Math.max(0, rest.size - (most - 1))
    val smallest = rest.sortBy(s => s.live + s.marks).take(surplus)
    (dead ++ smallest).map(_.run).toSet
  }
}
