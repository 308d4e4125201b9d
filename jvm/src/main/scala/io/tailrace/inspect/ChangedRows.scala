package io.tailrace.inspect

import java.util.Arrays

import scala.collection.mutable

import org.apache.spark.unsafe.types.UTF8String

import io.tailrace.state.LiveSection

/** The rows that have come and gone between two versions of a partition. A section never changes, so of those
  * that both versions have, no row can have come, and those are gone that have left since:
  *
  * {{{
  *   version 7    5-a.run: 12:00 12:04    6-b.run: 12:01    6-c.run: 12:02
  *   version 9    5-a.run: 12:00 12:04    8-d.run: 12:01 12:02 12:09         results out through 12:00
  *                gone: 12:00             both read: 12:01 and 12:02 are the same rows; added: 12:09
  * }}}
  *
  * A row keeps its sequence number when it is written again. Those of the sections that only one of the versions
  * has are held in memory, 8 bytes each.
  */
private[inspect] final class ChangedRows(before: OpenedPartition, after: OpenedPartition) {
  import ChangedRows._

  private val shared = before.names.intersect(after.names)

  def parts: Iterator[StatePart] = {
    val (kept, went) = before.sections.partition(live => shared(OpenedPartition.nameOf(live)))
    val came = after.sections.filterNot(live => shared(OpenedPartition.nameOf(live)))
    StatePart.prepare(went)
    StatePart.prepare(came)
    val (old, young) = (seqsOf(before, went), seqsOf(after, came))
    went.iterator.map(live => StatePart(Gone, before.rows(live)(row => !has(young, row.seq)))) ++
      kept.iterator.flatMap(left) ++
      came.iterator.map(live => StatePart(Added, after.rows(live)(row => !has(old, row.seq))))
  }

  /** The rows of a section that have left it. */
  private def left(live: LiveSection): Option[StatePart] = {
    val kind = live.section.kind
    val isMarked = after.hasMarks(kind)
    val through = after.leftThrough(kind)
    val mayHaveLeft = isMarked || (through > before.leftThrough(kind) && through >= live.section.minTime)
    Option.when(mayHaveLeft) {
      val rows = before.rows(live, if (isMarked) Long.MaxValue else through)(!after.counts(kind, _))
      StatePart(Gone, rows)
    }
  }

  private def seqsOf(version: OpenedPartition, sections: Seq[LiveSection]): Array[Long] = {
    val seqs = mutable.ArrayBuilder.make[Long]
    sections.foreach { live =>
      val rows = version.rows(live)(_ => true)
      try while (rows.next()) seqs += rows.at.seq
      finally rows.close()
    }
    val sorted = seqs.result()
    Arrays.sort(sorted)
    sorted
  }
}

private[inspect] object ChangedRows {
  val Added: UTF8String = UTF8String.fromString("added")
  val Gone: UTF8String = UTF8String.fromString("gone")

  private def has(sorted: Array[Long], seq: Long): Boolean = Arrays.binarySearch(sorted, seq) >= 0
}
