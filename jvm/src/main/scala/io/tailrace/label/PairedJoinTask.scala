package io.tailrace.label

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import io.tailrace.join.{JoinMetrics, StoredJoinContext}
import io.tailrace.state.{LiveSection, RowBuffer, StoreKind}

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
final class PairedJoinTask(context: StoredJoinContext, settings: JoinSettings, times: LabelJoinTimes)
    extends JoinTask(context, settings, times) {
  import context._
  import times._

  private val leftKind = StoreKind.LeftKeySorted
  private val rightKind = StoreKind.RightKeySorted
  private val earlierLeft = store.sectionsOf(leftKind)
  private val earlierRight = store.sectionsOf(rightKind)
  private val newLeft = new ArrayBuffer[LiveSection]
  private val newRight = new ArrayBuffer[LiveSection]
  private var open: Option[ArrivalMatches] = None

  override protected def write(left: RowBuffer, right: RowBuffer): Unit = {
    val (lefts, rights) =
      store
        .addRun(bucketWidth, leftKind -> left, rightKind -> right)
        .partition(_.section.kind == leftKind)
    newLeft ++= lefts
    newRight ++= rights
  }

  override protected def joined: Iterator[UnsafeRow] = {
    val left = new UnsafeRow(columns.left.size)
    val right = new UnsafeRow(columns.payload.size)
    lazy val writer = new PairWriter(columns, settings)
    val labelsOut = metric(JoinMetrics.LabelsOut)
    val onArrival = metric(JoinMetrics.MatchedOnArrival)

    def pairs(matches: => ArrivalMatches, probe: UnsafeRow, candidate: UnsafeRow): Iterator[UnsafeRow] = {
      lazy val source = {
        open.foreach(_.close())
        open = Some(matches)
        open.get
      }
      Iterator.continually(source.next()).takeWhile(identity).map { _ =>
        labelsOut += 1
        onArrival += 1
        pointTo(probe, source.chunk, source.probe)
        source.candidates.pointTo(candidate, source.candidate)
        writer.write(left, right)
      }
    }

    pairs(matchesOf(newLeft, earlierRight, -window.before, window.after), left, right) ++
      pairs(matchesOf(newRight, earlierLeft ++ newLeft, -window.after, window.before), right, left)
  }

  private def matchesOf(
      probing: collection.Seq[LiveSection],
      sections: Seq[LiveSection],
      from: Long,
      to: Long
  ): ArrivalMatches = new ArrivalMatches(probing.toSeq, sections, from, to, bufferBytes, memory)

  override def expire(): Long =
    store.dropThrough(leftKind, window.leftExpiry(watermark)) +
      store.dropThrough(rightKind, window.rightExpiryOnMatch(watermark))

  override def close(): Unit = {
    open.foreach(_.close())
    super.close()
  }
}
