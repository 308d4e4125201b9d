package io.tailrace.label

import org.apache.spark.sql.execution.metric.SQLMetric

import io.tailrace.join.StoredJoinContext
import io.tailrace.state.{GoneMarks, LiveSection, StoreKind}

/** The promise of `exactly_one`: a left row has one match at the most, and so has a right row. Both leave the state when
  * they have been paired.
  *
  * Where the data breaks it, the right rows of a key come by time, and each takes the earliest left row of its window
  * that is free; left rows that come later than their right rows take the earliest of these. Of rows of one time the
  * first by content counts:
  *
  * {{{
  *   window 10 min      left 12:00 12:01      right 12:05 12:06 12:07
  *                      (12:00, 12:05) (12:01, 12:06)      12:07 finds no free row: a match is left out
  * }}}
  */
private[label] final class OneToOne(context: StoredJoinContext, bucketWidth: Long) extends AutoCloseable {
  import context._

  private val marks = {
    val kinds = Seq(StoreKind.GoneLeft, StoreKind.GoneRight)
    new GoneMarks(store, kinds, memory, bufferBytes, bucketWidth)
  }

  /** The pairs among the matches of key-sorted rows.
    *
    * @param from see [[SortedMerge]]
    */
  final class Pairs(
      probing: Seq[LiveSection],
      sections: Seq[LiveSection],
      from: Long,
      to: Long,
      leftOut: SQLMetric
  ) extends MatchedPairs {
    private val probes = new OrderedProbes(if (sections.isEmpty) Nil else probing)
    private val gone = sections.headOption.map(live => marks.gone(live.section.kind))
    override val matches = new ArrivalMatches(probes, sections, from, to, context, gone)
    import matches.{candidates, chunk}
    private var piece = -1L
    // Candidates before this position are taken, or too early for the probing rows to come.
    private var free = 0
    private var position = 0

    override def candidate: Int = position
    override def close(): Unit = matches.close()

    override def next(isOpen: () => Boolean): Boolean = {
      var isFound = false
      while (!isFound && matches.nextProbe()) {
        val probe = matches.probe
        if (!marks.gone(probes.section(probe).section.kind).contains(chunk.seq(probe))) isFound = pair(isOpen)
      }
      isFound
    }

    private def pair(isOpen: () => Boolean): Boolean = {
      if (piece != matches.piece) {
        piece = matches.piece
        free = 0
      }
      val end = candidates.first + candidates.count
      // The earliest candidates are closed, if any is.
      position = candidates.first
      while (position < end && !isOpen()) position += 1
      val open = end - position
      position = Math.max(position, free)
      val isFound = position < end
      if (isFound) {
        free = position + 1
        val probe = matches.probe
        marks.add(probes.section(probe), chunk.time(probe), chunk.seq(probe))
        marks.add(candidates.section(position), candidates.time(position), candidates.seq(position))
      }
      leftOut += (if (isFound) open - 1 else open)
      isFound
    }
  }

  /** Writes what has gone. @return how many rows that is */
  def settle(): Long = marks.settle()

  /** Drops marks of rows that have left with their sections: see [[io.tailrace.state.TailraceStateStore]]. */
  def dropThrough(left: Long, right: Long): Unit = {
    store.dropThrough(StoreKind.GoneLeft, left): Unit
    store.dropThrough(StoreKind.GoneRight, right): Unit
  }

  override def close(): Unit = marks.close()
}
