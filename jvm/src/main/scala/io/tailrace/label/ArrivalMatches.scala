package io.tailrace.label

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import io.tailrace.join.StoredJoinContext
import io.tailrace.state.{GoneRows, LiveSection, MemoryShare, RowBuffer}

/** The pairs of a probing row and a candidate, one after the other. */
private[label] trait MatchedPairs extends AutoCloseable {

  /** Moves to the next pair. @return false if there is none */
  def next(): Boolean

  def probeTime: Long
  def candidateTime: Long

  /** Points Spark's rows to the two rows of the pair, until the next one. */
  def pointTo(probe: UnsafeRow, candidate: UnsafeRow): Unit
}

/** All matches between the probing rows and those of some sections, which are key-sorted. It works on a chunk of
  * probing rows at a time.
  *
  * @param from see [[SortedMerge]]
  * @param gone rows of those sections that have gone one by one
  */
final class ArrivalMatches private[label] (
    probing: ProbeRows,
    sections: Seq[LiveSection],
    from: Long,
    to: Long,
    context: StoredJoinContext,
    gone: Option[GoneRows] = None
) extends MatchedPairs {
  import context.{bufferBytes, memory}

  /** The rows of the chunk; [[probe]] is one of them. */
  val chunk = new RowBuffer(memory)
  private val share = new MemoryShare(memory, bufferBytes)
  private val merge = new SortedMerge(from, to, memory, bufferBytes, large = LargeKeys.InPieces, gone = gone)

  /** @param probing key-sorted, too; it probes one section after the other */
  def this(
      probing: Seq[LiveSection],
      sections: Seq[LiveSection],
      from: Long,
      to: Long,
      context: StoredJoinContext
  ) = this(new SectionProbes(if (sections.isEmpty) Nil else probing), sections, from, to, context)

  private var position = 0
  private var end = 0

  override def next(): Boolean = {
    position += 1
    while (position >= end && nextProbe()) {
      position = candidates.first
      end = candidates.first + candidates.count
    }
    position < end
  }

  /** The probing row: its number in [[chunk]]. */
  def probe: Int = merge.probe

  /** The row that it is paired with: its position in [[candidates]]. */
  def candidate: Int = position
  override def probeTime: Long = chunk.time(probe)
  override def candidateTime: Long = candidates.time(position)

  override def pointTo(probing: UnsafeRow, other: UnsafeRow): Unit = {
    probing.pointTo(chunk.base(probe), chunk.valueOffset(probe), chunk.valueLength(probe))
    candidates.pointTo(other, position): Unit
  }

  def candidates: Candidates = merge.candidates

  /** See [[SortedMerge.piece]]. */
  def piece: Long = merge.piece

  /** Moves to the next probing row. @return false if there is none */
  def nextProbe(): Boolean = {
    while (!merge.next()) if (!nextChunk()) return false
    true
  }

  private def nextChunk(): Boolean = {
    chunk.clear()
    share.reset()
    merge.start(chunk, probing.fill(chunk, share), sections)
    !chunk.isEmpty
  }

  override def close(): Unit = {
    probing.close()
    merge.close()
    chunk.close()
  }
}
