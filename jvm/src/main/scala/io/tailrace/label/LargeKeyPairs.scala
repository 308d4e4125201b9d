package io.tailrace.label

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.metric.SQLMetric

import io.tailrace.join.StoredJoinContext
import io.tailrace.state.{GoneRows, LiveSection, RowBuffer, RowMemory}

/** The pairs of one key, of [[OneToOne]], whose rows don't fit in memory. Both sides are read once, in order, a row at a
  * time. Two more ways through the candidates, behind and ahead, count the matches of each probing row:
  *
  * {{{
  *   probing rows, in order        12:05
  *                                 its window
  *                             ├───────────────────┤
  *   candidates, in order      behind    free      ahead
  *                             11:55     12:01     12:05
  *                                       it takes this one; those before it are taken, or too early
  * }}}
  *
  * What is taken is told to the caller, who adds it to `gone` before the next one.
  *
  * @param sections of the candidates
  * @param gone     candidates that nobody gets
  * @param leftOut  counts matches that aren't pairs
  */
private[label] final class LargeKeyPairs(
    probes: KeyProbes,
    sections: Seq[LiveSection],
    window: PairWindow,
    isProbing: (Long, Long) => Boolean,
    gone: GoneRows,
    leftOut: SQLMetric,
    context: StoredJoinContext
) extends MatchedPairs {
  private val begin = window.lower(probes.firstTime)
  private val taken = new GoneRows

  // Those behind count as long as those ahead have counted them.
  private val behind = new CountedRows(rows(seq => gone.contains(seq) && !taken.contains(seq)))
  private val ahead = new CountedRows(rows(gone.contains))
  private val free = new RowsInOrder(rows(gone.contains), context)
  private val candidate = new RowBuffer(context.memory)

  private def rows(isHidden: Long => Boolean): SectionRows =
    new SectionRows(probes.base, probes.at, begin, Long.MaxValue, sections, row => isHidden(row.seq))

  override def next(): Boolean = {
    var isFound = false
    while (!isFound && probes.next()) isFound = isProbing(probes.seq, probes.time) && pair()
    isFound
  }

  private def pair(): Boolean = {
    val lower = window.lower(probes.time)
    val upper = window.upper(probes.time)
    ahead.countTo(_ <= upper)
    behind.countTo(_ < lower)
    free.dropBefore(lower)
    val isFound = !free.isEmpty && free.time <= upper
    if (isFound) {
      candidate.clear()
      free.appendTo(candidate): Unit
      taken.add(candidateSeq)
    }
    leftOut += ahead.count - behind.count - (if (isFound) 1 else 0)
    isFound
  }

  def probeSection: LiveSection = probes.section
  def probeSeq: Long = probes.seq
  override def probeTime: Long = probes.time

  def candidateSection: LiveSection = free.section
  def candidateSeq: Long = candidate.seq(0)
  override def candidateTime: Long = candidate.time(0)

  override def pointTo(probe: UnsafeRow, other: UnsafeRow): Unit = {
    probes.pointTo(probe)
    other.pointTo(candidate.base(0), candidate.valueOffset(0), candidate.valueLength(0))
  }

  override def close(): Unit = Seq(probes, behind, ahead, free, candidate).foreach(_.close())
}

/** Counts rows up to a time that goes up. */
private final class CountedRows(rows: SectionRows) extends AutoCloseable {
  var count = 0L

  def countTo(isThere: Long => Boolean): Unit = while (!rows.isEmpty && isThere(rows.time)) {
    count += 1
    rows.drop()
  }

  override def close(): Unit = rows.close()
}

/** The probing rows of one key, in order: some of a chunk, and, if the key continues behind the chunk, the next ones.
  *
  * @param sectionOf a row of the chunk
  */
private[label] final class KeyProbes(
    chunk: RowBuffer,
    sectionOf: Int => LiveSection,
    rows: Array[Int],
    more: Option[RowsInOrder],
    memory: RowMemory
) extends AutoCloseable {
  private val one = new RowBuffer(memory)
  private var position = -1

  /** A row with the key: see [[io.tailrace.state.RowLayout]]. */
  def base: AnyRef = chunk.base(rows.head)
  def at: Long = chunk.at(rows.head)
  def firstTime: Long = chunk.time(rows.head)

  /** Goes on to the next row. @return false if there is none */
  def next(): Boolean = {
    position += 1
    isInChunk || more.exists { others =>
      !others.isEmpty && others.hasKey(base, at) && {
        one.clear()
        others.appendTo(one)
      }
    }
  }

  private def isInChunk: Boolean = position < rows.length
  private def buffer: RowBuffer = if (isInChunk) chunk else one
  private def row: Int = if (isInChunk) rows(position) else 0

  def time: Long = buffer.time(row)
  def seq: Long = buffer.seq(row)
  def section: LiveSection = if (isInChunk) sectionOf(row) else more.get.section

  def pointTo(to: UnsafeRow): Unit =
    to.pointTo(buffer.base(row), buffer.valueOffset(row), buffer.valueLength(row))

  override def close(): Unit = one.close()
}
