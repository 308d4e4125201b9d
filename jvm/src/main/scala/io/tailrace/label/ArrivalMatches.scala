package io.tailrace.label

import io.tailrace.join.StoredJoinContext
import io.tailrace.state.{GoneRows, LiveSection, MemoryShare, RowBuffer}

/** Goes over pairs of a probing row and a candidate. */
private[label] trait MatchedPairs extends AutoCloseable {

  /** The matches that the pairs are of. */
  def matches: ArrivalMatches

  /** Goes on to the next pair. @param isOpen whether it may be one */
  def next(isOpen: () => Boolean): Boolean

  /** The row that the probing row is paired with: its position in [[ArrivalMatches.candidates]]. */
  def candidate: Int
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
  private val merge = new SortedMerge(from, to, memory, bufferBytes, inPieces = true, gone = gone)

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

  /** Goes on to the next match. @return false if there is none */
  def next(): Boolean = {
    position += 1
    while (position >= end && nextProbe()) {
      position = candidates.first
      end = candidates.first + candidates.count
    }
    position < end
  }

  /** The probing row: its number in [[chunk]]. */
  def probe: Int = merge.probe

  override def matches: ArrivalMatches = this

  override def next(isOpen: () => Boolean): Boolean = {
    var isThere = next()
    while (isThere && !isOpen()) isThere = next()
    isThere
  }

  override def candidate: Int = position
  def candidates: Candidates = merge.candidates

  /** See [[SortedMerge.piece]]. */
  def piece: Long = merge.piece

  /** Goes on to the next probing row. @return false if there is none */
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
