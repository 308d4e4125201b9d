package io.tailrace.label

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.catalyst.expressions.codegen.GenerateUnsafeRowJoiner
import org.apache.spark.sql.types.StructType

import io.tailrace.common.{MarkedRows, StepwiseRows}
import io.tailrace.join.{JoinColumns, StoredJoinContext}
import io.tailrace.state.{LiveSection, MemoryShare, RowBuffer, StoreKind}

/** The task of how = "inner": a pair comes out in the batch that brings the later of its two rows. Both
  * sides are key-sorted.
  *
  * {{{
  *   new left  rows  x  right rows of earlier batches
  *   new right rows  x  left rows of earlier batches and of this one
  * }}}
  *
  * This gives each pair once. A row stays until the watermark says that no partner can come: a left row of
  * 12:00 with after = 30 minutes until 12:30, a right row of 12:00 with before = 0 until 12:00.
  */
final class PairedJoinTask(context: StoredJoinContext, settings: JoinSettings, times: LabelJoinTimes)
    extends LabelJoinTask(context, settings, times) {
  import context._
  import times._

  private val leftKind = StoreKind.LeftKeySorted
  private val rightKind = StoreKind.RightKeySorted
  private val earlierLeft = store.sectionsOf(leftKind)
  private val earlierRight = store.sectionsOf(rightKind)
  private val newLeft = new ArrayBuffer[LiveSection]
  private val newRight = new ArrayBuffer[LiveSection]
  private var open: Option[ArrivalMatches] = None
  private lazy val writer = new PairWriter(columns, settings)

  override protected def write(left: RowBuffer, right: RowBuffer): Unit = {
    val added = store.addRun(bucketWidth, leftKind -> left, rightKind -> right)
    val (lefts, rights) = added.partition(_.section.kind == leftKind)
    newLeft ++= lefts
    newRight ++= rights
  }

  override protected def joined: Iterator[UnsafeRow] = {
    import window.{after, before}
    new Pairs(
      new ArrivalMatches(newLeft.toSeq, earlierRight, -before, after, context),
      probesAreLeft = true
    ) ++
      new Pairs(
        new ArrivalMatches(newRight.toSeq, earlierLeft ++ newLeft, -after, before, context),
        probesAreLeft = false
      ) ++ matchesOfGrowth(earlierLeft, earlierRight).iterator.flatMap(new Pairs(_, probesAreLeft = true))
  }

  /** All pairs of the probing rows with those of the other side. */
  private final class Pairs(matches: ArrivalMatches, probesAreLeft: Boolean) extends StepwiseRows[UnsafeRow] {
    open.foreach(_.close())
    open = Some(matches)
    private val left = new UnsafeRow(columns.left.size)
    private val right = new UnsafeRow(columns.payload.size)
    private val probe = if (probesAreLeft) left else right
    private val candidate = if (probesAreLeft) right else left
    private val labelsOut = metric(LabelMetrics.LabelsOut)
    private val onArrival = metric(LabelMetrics.MatchedOnArrival)

    /** Goes on to the next pair whose left row waited when the batch began, or came with it. */
    private def nextPair(): Boolean = {
      var isThere = matches.next()
      while (isThere && leftTime <= closedThrough) isThere = matches.next()
      isThere
    }

    private def leftTime: Long =
      if (probesAreLeft) matches.chunk.time(matches.probe) else matches.candidates.time(matches.candidate)

    override protected def step(): UnsafeRow =
      if (!nextPair()) {
        end()
        null
      } else {
        labelsOut += 1
        onArrival += 1
        pointTo(probe, matches.chunk, matches.probe)
        matches.candidates.pointTo(candidate, matches.candidate)
        writer.write(left, right)
      }
  }

  override def expire(): Long = {
    keepWatermark()
    // A section is there as long as one of its rows is, and a window that grows would reach the others.
    store.markExpired(leftKind, decidedThrough, _ => 0L)
    store.dropThrough(leftKind, Math.max(window.leftExpiry(watermark), decidedThrough)) +
      store.dropThrough(rightKind, window.rightExpiryOnMatch(watermark))
  }

  override def close(): Unit = {
    open.foreach(_.close())
    super.close()
  }
}

/** Writes a pair: the left row, the right row's columns but the keys, then `_mark` if late rows come out. */
final class PairWriter(columns: JoinColumns, settings: JoinSettings) {
  private val joiner = GenerateUnsafeRowJoiner.create(columns.leftSchema, columns.payloadSchema)
  private lazy val marked =
    new MarkedRows(StructType(columns.leftSchema.fields ++ columns.payloadSchema.fields))

  /** @return a row that is valid until the next call */
  def write(left: UnsafeRow, right: UnsafeRow): UnsafeRow = {
    val pair = joiner.join(left, right)
    if (settings.marksLate) marked.ordinary(pair) else pair
  }
}

/** All matches between the rows of some sections, the probing rows, and those of other sections. Both are
  * key-sorted. It works on a chunk of probing rows at a time.
  *
  * @param from see [[SortedMerge]]
  */
final class ArrivalMatches(
    probing: Seq[LiveSection],
    sections: Seq[LiveSection],
    from: Long,
    to: Long,
    context: StoredJoinContext
) extends AutoCloseable {
  import context.{bufferBytes, memory}

  /** The rows of the chunk; [[probe]] is one of them. */
  val chunk = new RowBuffer(memory)
  private val share = new MemoryShare(memory, bufferBytes)
  private val merge = new SortedMerge(from, to, memory, bufferBytes, inPieces = true)
  private val chunks = new SectionChunks(if (sections.isEmpty) Nil else probing) {
    override protected def isFull(bytes: Long): Boolean = share.isFull(bytes)
  }
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
    chunks.fill(chunk)
    // A key-sorted section is in the order that the merge needs.
    merge.start(chunk, Array.range(0, chunk.size), sections)
    !chunk.isEmpty
  }

  override def close(): Unit = {
    chunks.close()
    merge.close()
    chunk.close()
  }
}
