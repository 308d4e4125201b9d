package io.tailrace.label

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import io.tailrace.common.{MemoryErrors, RowMemoryExhausted}
import io.tailrace.join.{ExpiringRows, Pass}
import io.tailrace.state._

/** The matching of `release = "decided"`, with match = "first" and no `before`: a left row is emitted, and leaves the state,
  * as soon as the watermark has reached its first match. No earlier match can arrive then. A left row without a match
  * waits for the end of its window.
  *
  * {{{
  *   batch ──> left-key-sorted      left rows, to be found by right rows
  *         ──> right-time-sorted    right rows, until the watermark reaches them
  *
  *   watermark reaches 12:00 .. 12:05:
  *     right-time-sorted ── those of 12:00 .. 12:05 ──by key and time──┐
  *     left-key-sorted  ───────────────────────────────────────────────┴─> the left rows that wait for them: gone-left
  *   watermark reaches left_time + after:
  *     left-key-sorted ── those that haven't gone ──> without a match
  * }}}
  *
  * A left row is never older than the watermark when it comes, so no right row that is passed is needed again.
  */
private[label] final class DecidedMatching(batch: LabelBatch) extends LabelMatching {
  import StoreKind.{GoneLeft, LeftKeySorted, RightTimeSorted}
  import batch.context._
  import batch.times.{bucketWidth, watermark}
  import batch.{closedThrough, context, settings, through, window}

  private val earlierLeft = store.sectionsOf(LeftKeySorted).filter(_.section.liveRows > 0)
  private val earlierRight = store.sectionsOf(RightTimeSorted)
  private val written = new WrittenSides(store, LeftKeySorted, RightTimeSorted, bucketWidth)
  private val marks = new GoneMarks(store, Seq(GoneLeft), memory, bufferBytes, bucketWidth)
  private val gone = marks.gone(LeftKeySorted)
  private val passed: OrderedRows = new OrderedRows(store, memory, bufferBytes, () => passed.makeRoom())
  private val passedOf = mutable.HashMap.empty[LiveSection, Long]
  private val closedOf = mutable.HashMap.empty[LiveSection, Long]
  private val group = new Candidates(memory)
  private lazy val writer = settings.groupWriter(columns, memory)
  private val counts = new GroupCounts(metric)
  private val leftRow = new UnsafeRow(columns.left.size)
  private var nanos = 0L

  override def write(left: RowBuffer, right: RowBuffer): Unit = written.add(left, right)

  override def passes: Seq[() => Pass] =
    Seq(() => Pass.withoutRows(gather()), () => new Decided, () => new Closed)

  private def gather(): Unit = {
    val started = System.nanoTime
    gather(earlierRight, store.operatorTime)
    gather(written.right, Long.MinValue)
    passed.start()
    nanos = System.nanoTime - started
  }

  /** Takes the right rows that the watermark has reached since then, and late ones that have come. */
  private def gather(sections: Seq[LiveSection], from: Long): Unit = {
    val rows = new ExpiringRows(RightTimeSorted, from, watermark, sections)
    try
      while (!rows.isEmpty) {
        passed.append(rows.base, rows.at)
        rows.drop()
      }
    finally {
      passedOf ++= rows.taken
      rows.close()
    }
  }

  private def write(left: UnsafeRow, time: Long): UnsafeRow = {
    val row =
      try writer.write(left, time, Matches(group, 0, group.size, group.size))
      catch { case e: RowMemoryExhausted => throw MemoryErrors.groupTooLarge(group.size, group.bytes, e) }
    counts.add(writer)
    row
  }

  /** The left rows that are decided, one a step: right rows come by key and time, so the first one that reaches a left
    * row is its match.
    */
  private final class Decided extends Pass {
    private val lefts = earlierLeft ++ written.left
    private val probes = new SortedProbes(passed)
    private val matches =
      new ArrivalMatches(probes, if (probes.isEmpty) Nil else lefts, -window.after, 0L, context, Some(gone))
    import matches.candidates
    private var piece = -1L
    // Candidates before this position are decided, or were closed.
    private var position = 0
    private var until = 0
    private var found = 0L

    override protected def step(): UnsafeRow =
      if (position < until) {
        position += 1
        decide(position - 1)
      } else if (matches.nextProbe()) {
        if (piece != matches.piece) position = 0
        piece = matches.piece
        position = Math.max(position, candidates.first)
        until = candidates.first + candidates.count
        if (position < until) takeProbe()
        null
      } else {
        metric(LabelMetrics.MatchedAtExpiry) += found
        end()
        null
      }

    private def takeProbe(): Unit = {
      group.clear()
      group.add(matches.chunk.base(matches.probe), matches.chunk.at(matches.probe))
    }

    private def decide(left: Int): UnsafeRow = {
      val time = candidates.time(left)
      if (time <= closedThrough) null
      else {
        found += 1
        marks.add(candidates.section(left), time, candidates.seq(left))
        write(candidates.pointTo(leftRow, left), time)
      }
    }

    override def close(): Unit = matches.close()
  }

  /** The left rows whose windows have closed without a match, one a step. */
  private final class Closed extends Pass {
    private val from = store.expiredThrough
    private val sections = store
      .sectionsOf(LeftKeySorted)
      .filter(live => from < through && live.section.minTime <= through && live.section.maxTime > from)
      .iterator
    private var section: LiveSection = _
    private var cursor: RunCursor = _
    group.clear()

    override protected def step(): UnsafeRow =
      if (cursor != null && cursor.isValid) {
        val isOut = cursor.time > from && cursor.time <= through && !gone.contains(cursor.seq)
        val row = if (isOut) writeClosed() else null
        if (isOut) closedOf(section) = closedOf.getOrElse(section, 0L) + 1
        // The row that is emitted is a copy.
        cursor.next()
        row
      } else if (sections.hasNext) {
        close()
        section = sections.next()
        cursor = section.cursor()
        cursor.first()
        null
      } else {
        counts.report()
        end()
        null
      }

    private def writeClosed(): UnsafeRow = {
      val (base, at) = (cursor.base, cursor.at)
      leftRow.pointTo(base, RowLayout.valueAt(base, at), RowLayout.valueLength(base, at))
      write(leftRow, cursor.time)
    }

    override def close(): Unit = if (cursor != null) cursor.close()
  }

  override def expiryNanos: Long = nanos

  override def expire(): Long = {
    store.markExpired(LeftKeySorted, through, closedOf.getOrElse(_, 0L))
    store.markExpired(RightTimeSorted, through, passedOf.getOrElse(_, 0L))
    val decided = marks.settle()
    Seq(LeftKeySorted -> through, GoneLeft -> through, RightTimeSorted -> watermark).foreach {
      case (kind, time) => store.dropThrough(kind, time)
    }
    batch.keepWatermark()
    decided + closedOf.values.sum + passedOf.values.sum
  }

  override def close(): Unit = Seq(marks, passed, group, writer).foreach(_.close())
}
