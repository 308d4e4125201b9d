package io.tailrace.join

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.catalyst.expressions.codegen.GenerateUnsafeRowJoiner

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
  private val values = new RowBuffer(memory)
  private val matches = new MatchList(values)
  private var open: Option[RunCursor] = None

  override protected def added(sections: Seq[LiveSection]): Unit = {
    val (left, right) = sections.partition(_.section.kind == leftKind)
    newLeft ++= left
    newRight ++= right
  }

  override protected def joined: Iterator[UnsafeRow] = {
    lazy val joiner = GenerateUnsafeRowJoiner.create(columns.leftSchema, columns.payloadSchema)
    lazy val lateJoiner = GenerateUnsafeRowJoiner.create(
      org.apache.spark.sql.types.StructType(columns.leftSchema.fields ++ columns.payloadSchema.fields),
      columns.lateSchema
    )
    val notLate = new UnsafeRow(1)
    notLate.pointTo(new Array[Byte](16), 16)
    val labelsOut = metric(JoinMetrics.LabelsOut)
    val left = new UnsafeRow(columns.left.size)
    val right = new UnsafeRow(columns.payload.size)

    def pair(l: UnsafeRow, r: UnsafeRow): UnsafeRow = {
      labelsOut += 1
      val both = joiner.join(l, r)
      if (settings.emitLate) lateJoiner.join(both, notLate) else both
    }

    val byLeft = matchesOf(newLeft.toSeq, earlierRight, new SortedMerge(-window.before, window.after)).map {
      case (l, r) => pair(pointTo(left, chunk, l), pointTo(right, values, r))
    }
    lazy val byRight =
      matchesOf(newRight.toSeq, earlierLeft ++ newLeft, new SortedMerge(-window.after, window.before)).map {
        case (r, l) => pair(pointTo(left, values, l), pointTo(right, chunk, r))
      }
    byLeft ++ byRight
  }

  /** Pairs of row numbers in `chunk` and `values`, which hold one chunk of the probing sections at a time. */
  private def matchesOf(
      probing: Seq[LiveSection],
      sections: Seq[LiveSection],
      merge: SortedMerge
  ): Iterator[(Int, Int)] =
    if (sections.isEmpty) Iterator.empty
    else
      probing.iterator.flatMap { live =>
        val cursor = live.cursor()
        open = Some(cursor)
        cursor.first()
        Iterator
          .continually(nextChunk(cursor, sections, merge))
          .takeWhile(identity)
          .flatMap(_ =>
            Iterator.range(0, chunk.size).flatMap { probe =>
              val found = matches.ordered(probe)
              Iterator.range(0, matches.count(probe)).map(i => (probe, found(i)))
            }
          )
      }

  private def nextChunk(cursor: RunCursor, sections: Seq[LiveSection], merge: SortedMerge): Boolean = {
    chunk.clear()
    values.clear()
    while (cursor.isValid && (chunk.isEmpty || chunk.bytes < bufferBytes)) {
      cursor.appendTo(chunk)
      cursor.next()
    }
    if (chunk.isEmpty) {
      cursor.close()
      open = None
      false
    } else {
      // A key-sorted section is in the order that the merge needs.
      val order = Array.tabulate(chunk.size)(i => i)
      matches.reset(chunk.size)
      merge.run(chunk, order, sections)(_.appendValueTo(values))(matches.add)
      true
    }
  }

  override def expire(): Long =
    store.dropThrough(leftKind, window.leftExpiry(watermark)) +
      store.dropThrough(StoreKind.RightKeySorted, window.rightExpiryOnMatch(watermark))

  override def close(): Unit = {
    open.foreach(_.close())
    chunk.close()
    values.close()
    super.close()
  }
}
