package io.tailrace.label

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import io.tailrace.join.Pass
import io.tailrace.state.{LiveSection, RowBuffer, StoreKind}

/** The matching of how = "inner": a pair is emitted in the batch that brings the later of its two rows. Both
  * sides are key-sorted.
  *
  * {{{
  *   new left  rows  x  right rows of earlier batches
  *   new right rows  x  left rows of earlier batches and of this one
  * }}}
  *
  * This gives each pair once. A row stays until the watermark says that no partner can come: a left row of
  * 12:00 with after = 30 minutes until 12:30, a right row of 12:00 with before = 0 until 12:00. With `exactly_one` it
  * leaves with its partner.
  */
private[label] final class PairedMatching(batch: LabelBatch) extends LabelMatching {
  import batch.context._
  import batch.times.{bucketWidth, earlier, watermark}
  import batch.{closedThrough, context, decidedThrough, settings, window}

  private val leftKind = StoreKind.LeftKeySorted
  private val rightKind = StoreKind.RightKeySorted
  private val earlierLeft = store.sectionsOf(leftKind).filter(_.section.liveRows > 0)
  private val earlierRight = store.sectionsOf(rightKind).filter(_.section.liveRows > 0)
  private val written = new WrittenSides(store, leftKind, rightKind, bucketWidth)
  private val oneToOne = Option.when(settings.exactlyOne)(new OneToOne(context, bucketWidth))
  private lazy val writer = new PairWriter(columns, settings.marksLate)

  override def write(left: RowBuffer, right: RowBuffer): Unit = written.add(left, right)

  override def passes: Seq[() => Pass] = {
    import window.{after, before}
    Seq(
      () => pairs(written.left, earlierRight, -before, after, probesAreLeft = true),
      () => pairs(written.right, earlierLeft ++ written.left, -after, before, probesAreLeft = false)
    ) ++ earlier.map { was => () =>
      pairs(earlierLeft, earlierRight, was.after + 1, after, probesAreLeft = true)
    }
  }

  private def pairs(
      probing: Seq[LiveSection],
      of: Seq[LiveSection],
      from: Long,
      to: Long,
      probesAreLeft: Boolean
  ): Pairs = {
    val found: MatchedPairs = oneToOne match {
      case None => new ArrivalMatches(probing, of, from, to, context)
      case Some(one) => new one.Pairs(probing, of, PairWindow(from, to, probesAreLeft, closedThrough))
    }
    new Pairs(found, probesAreLeft)
  }

  /** The pairs of the probing rows with those of the other side. */
  private final class Pairs(pairs: MatchedPairs, probesAreLeft: Boolean) extends Pass {
    private val left = new UnsafeRow(columns.left.size)
    private val right = new UnsafeRow(columns.payload.size)
    private val probe = if (probesAreLeft) left else right
    private val candidate = if (probesAreLeft) right else left
    private val labelsOut = metric(LabelMetrics.LabelsOut)
    private val onArrival = metric(LabelMetrics.MatchedOnArrival)

    private def leftTime: Long = if (probesAreLeft) pairs.probeTime else pairs.candidateTime

    override protected def step(): UnsafeRow =
      if (!pairs.next()) {
        end()
        null
      } else if (leftTime <= closedThrough) null
      else {
        labelsOut += 1
        onArrival += 1
        pairs.pointTo(probe, candidate)
        writer.write(left, right)
      }

    override def close(): Unit = pairs.close()
  }

  override def expiryNanos: Long = 0L

  override def expire(): Long = {
    batch.keepWatermark()
    // A section is there as long as one of its rows is, and a window that grows would reach the others.
    store.markExpired(leftKind, decidedThrough, _ => 0L)
    val left = Math.max(window.leftExpiry(watermark), decidedThrough)
    val right = window.rightExpiryOnMatch(watermark)
    val gone = oneToOne.fold(0L)(_.settle())
    val expired = store.dropThrough(leftKind, left) + store.dropThrough(rightKind, right)
    oneToOne.foreach { pairs =>
      pairs.dropThrough(left, right)
      metric(LabelMetrics.UnpairedRows) += expired
    }
    gone + expired
  }

  override def close(): Unit = oneToOne.foreach(_.close())
}
