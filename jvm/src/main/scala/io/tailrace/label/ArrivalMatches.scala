package io.tailrace.label

import io.tailrace.state.{LiveSection, MemoryShare, RowBuffer, RowMemory, RunCursor}

/** All matches between the rows of some sections, the probing rows, and those of other sections. Both are key-sorted. It works
  * on a chunk of probing rows at a time.
  *
  * @param from see [[SortedMerge]]
  */
final class ArrivalMatches(
    probing: Seq[LiveSection],
    sections: Seq[LiveSection],
    from: Long,
    to: Long,
    bufferBytes: Long,
    memory: RowMemory
) extends AutoCloseable {

  /** The rows of the chunk; [[probe]] is one of them. */
  val chunk = new RowBuffer(memory)
  private val share = new MemoryShare(memory, bufferBytes)
  private val merge = new SortedMerge(from, to, memory, bufferBytes, inPieces = true)
  private val pending = if (sections.isEmpty) Iterator.empty else probing.iterator
  private var open: Option[RunCursor] = None
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

  /** The row that the probing row matches: its position in [[candidates]]. */
  def candidate: Int = position
  def candidates: Candidates = merge.candidates

  private def nextProbe(): Boolean = {
    while (!merge.next()) if (!nextChunk()) return false
    true
  }

  private def nextChunk(): Boolean = {
    chunk.clear()
    share.reset()
    while (chunk.isEmpty && (open.nonEmpty || pending.hasNext)) {
      val cursor = open.getOrElse {
        val first = pending.next().cursor()
        open = Some(first)
        first.first()
        first
      }
      while (
        cursor.isValid && (chunk.isEmpty || !share
          .isFull(chunk.bytes)) && chunk.appendIfRoom(cursor.base, cursor.at)
      )
        cursor.next()
      if (!cursor.isValid) closeOpen()
    }
    // A key-sorted section is in the order that the merge needs.
    merge.start(chunk, Array.range(0, chunk.size), sections)
    !chunk.isEmpty
  }

  private def closeOpen(): Unit = {
    open.foreach(_.close())
    open = None
  }

  override def close(): Unit = {
    closeOpen()
    merge.close()
    chunk.close()
  }
}
