package io.tailrace.label

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import io.tailrace.join.StoredJoinContext
import io.tailrace.state._

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

/** The rows that look for their matches, a chunk at a time. */
private[label] trait ProbeRows extends AutoCloseable {

  /** Appends rows to an empty chunk, at least one if any is left.
    *
    * @return their numbers in the order of key and time
    */
  def fill(chunk: RowBuffer, share: MemoryShare): Array[Int]
}

/** The rows of key-sorted sections, one section after the other. */
private[label] final class SectionProbes(sections: Seq[LiveSection]) extends ProbeRows {
  private var share: MemoryShare = _
  private val chunks = new SectionChunks(sections) {
    override protected def isFull(bytes: Long): Boolean = share.isFull(bytes)
  }

  override def fill(chunk: RowBuffer, of: MemoryShare): Array[Int] = {
    share = of
    chunks.fill(chunk)
    Array.range(0, chunk.size)
  }

  override def close(): Unit = chunks.close()
}

/** Rows that are in order already. */
private[label] final class SortedProbes(rows: OrderedRows) extends ProbeRows {
  private var isThere = rows.next()

  def isEmpty: Boolean = !isThere

  override def fill(chunk: RowBuffer, share: MemoryShare): Array[Int] = {
    def hasRoom = chunk.isEmpty || !share.isFull(chunk.bytes)
    while (isThere && hasRoom && chunk.appendIfRoom(rows.base, rows.at)) isThere = rows.next()
    Array.range(0, chunk.size)
  }

  override def close(): Unit = rows.close()
}

/** Left rows for which there was no memory, in local files, sorted by key. They come back a few at a time.
  * Rows that are parked again come back before the others, in still smaller parts.
  */
private[label] final class ParkedRows extends AutoCloseable {
  private var stack = List.empty[ParkedRows.Parked]

  /** Takes rows out of a chunk, and empties it.
    *
    * @param rest numbers of the rows to keep, sorted by key; none has an empty key
    */
  def park(store: TailraceStateStore, chunk: RowBuffer, rest: Array[Int]): Unit = {
    // One bucket, or two if there are times before the epoch.
    val sorted = SortedRows.ofSorted(ScratchKind.ByKey, chunk, rest, Long.MaxValue)
    stack ::= new ParkedRows.Parked(store.scratch(sorted), chunk.bytes / ParkedRows.Parts)
    chunk.release()
  }

  /** Appends rows that were parked to an empty chunk, sorted by key. @return whether there were any */
  def fill(chunk: RowBuffer): Boolean = stack match {
    case Nil => false
    case last :: before =>
      last.fill(chunk)
      !chunk.isEmpty || {
        last.close()
        stack = before
        fill(chunk)
      }
  }

  override def close(): Unit = {
    stack.foreach(_.close())
    stack = Nil
  }
}

private object ParkedRows {
  private val Parts = 4

  private final class Parked(run: ScratchRun, most: Long) extends SectionChunks(run.sections) {
    override protected def isFull(bytes: Long): Boolean = bytes >= most

    override def close(): Unit = {
      super.close()
      run.close()
    }
  }
}

/** The rows of some sections, one section after the other, a chunk at a time. */
private[label] abstract class SectionChunks(sections: Seq[LiveSection]) extends AutoCloseable {
  private val pending = sections.iterator
  private var open: Option[RunCursor] = None

  /** True if a chunk of this size is full. */
  protected def isFull(bytes: Long): Boolean

  /** Appends rows of one section to an empty chunk, at least one if any is left. */
  def fill(chunk: RowBuffer): Unit =
    while (chunk.isEmpty && (open.nonEmpty || pending.hasNext)) {
      val cursor = open.getOrElse {
        val next = pending.next().cursor()
        open = Some(next)
        next.first()
        next
      }
      def hasRoom = chunk.isEmpty || !isFull(chunk.bytes)
      while (cursor.isValid && hasRoom && chunk.appendIfRoom(cursor.base, cursor.at)) cursor.next()
      if (!cursor.isValid) closeOpen()
    }

  private def closeOpen(): Unit = {
    open.foreach(_.close())
    open = None
  }

  override def close(): Unit = closeOpen()
}
