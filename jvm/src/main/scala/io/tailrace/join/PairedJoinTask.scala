package io.tailrace.join

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import io.tailrace.state._

/** Matching on arrival: a pair comes out in the batch that brings the later of its two rows. Both sides are key-sorted.
  *
  * {{{
  *   new left  rows  x  right rows of earlier batches
  *   new right rows  x  left rows of earlier batches and of this one
  * }}}
  *
  * which is each pair once. A row stays until the watermark says that no partner can come: a left row of 12:00 with
  * after = 30 minutes until 12:30, a right row of 12:00 with before = 0 until 12:00.
  */
final class PairedJoinTask(context: JoinTaskContext) extends JoinTask(context) {
  import context._

  override protected val leftKind: StoreKind = StoreKind.LeftKeySorted

  private val earlierLeft = store.sectionsOf(leftKind)
  private val earlierRight = store.sectionsOf(StoreKind.RightKeySorted)
  private val newLeft = new ArrayBuffer[LiveSection]
  private val newRight = new ArrayBuffer[LiveSection]
  private val chunk = new RowBuffer(memory)
  private var open: Option[RunCursor] = None
  private var merging: Option[SortedMerge] = None

  override protected def added(sections: Seq[LiveSection]): Unit = {
    val (left, right) = sections.partition(_.section.kind == leftKind)
    newLeft ++= left
    newRight ++= right
  }

  override protected def joined: Iterator[UnsafeRow] = {
    lazy val writer = new PairWriter(columns, settings)
    val labelsOut = metric(JoinMetrics.LabelsOut)
    val left = new UnsafeRow(columns.left.size)
    val right = new UnsafeRow(columns.payload.size)

    val byLeft =
      matchesOf(newLeft.toSeq, earlierRight, -window.before, window.after, left, right)
    lazy val byRight =
      matchesOf(newRight.toSeq, earlierLeft ++ newLeft, -window.after, window.before, right, left)
    (byLeft ++ byRight).map { _ =>
      labelsOut += 1
      writer.write(left, right)
    }
  }

  /** Points `probe` and `candidate` to one pair after the other, with a chunk of the probing sections at a time. */
  private def matchesOf(
      probing: Seq[LiveSection],
      sections: Seq[LiveSection],
      from: Long,
      to: Long,
      probe: UnsafeRow,
      candidate: UnsafeRow
  ): Iterator[Unit] =
    if (sections.isEmpty) Iterator.empty
    else {
      merging.foreach(_.close())
      val merge = new SortedMerge(from, to, memory)
      merging = Some(merge)
      probing.iterator.flatMap { live =>
        val cursor = live.cursor()
        open = Some(cursor)
        cursor.first()
        Iterator
          .continually(nextChunk(cursor, sections, merge))
          .takeWhile(identity)
          .flatMap(_ => Iterator.continually(merge.next()).takeWhile(identity))
          .flatMap { _ =>
            pointTo(probe, chunk, merge.probe)
            Iterator.range(merge.first, merge.first + merge.count)
          }
          .map { position =>
            val candidates = merge.candidates
            candidate.pointTo(
              candidates.base(position),
              candidates.valueOffset(position),
              candidates.valueLength(position)
            )
          }
      }
    }

  private def nextChunk(cursor: RunCursor, sections: Seq[LiveSection], merge: SortedMerge): Boolean = {
    chunk.clear()
    while (cursor.isValid && (chunk.isEmpty || chunk.bytes < bufferBytes)) {
      chunk.appendRow(cursor.base, cursor.at)
      cursor.next()
    }
    if (chunk.isEmpty) {
      cursor.close()
      open = None
      false
    } else {
      // A key-sorted section is in the order that the merge needs.
      merge.start(chunk, Array.range(0, chunk.size), sections)
      true
    }
  }

  override def expire(): Long =
    store.dropThrough(leftKind, window.leftExpiry(watermark)) +
      store.dropThrough(StoreKind.RightKeySorted, window.rightExpiryOnMatch(watermark))

  override def close(): Unit = {
    open.foreach(_.close())
    merging.foreach(_.close())
    chunk.close()
    super.close()
  }
}
