package io.tailrace.label

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.metric.SQLMetric

import io.tailrace.common.{RowMemoryExhausted, Side}
import io.tailrace.join.{Pass, StoredJoinContext}
import io.tailrace.state._

/** The matching of how = "inner": a pair is emitted in the batch that brings the later of its two rows. Both
  * sides are key-sorted.
  *
  * {{{
  *   new left  rows  x  right rows of earlier batches
  *   new right rows  x  left rows of earlier batches and of this one
  * }}}
  *
  * This gives each pair once. A row stays until the watermark says that no partner can come: a left row of
  * 12:00 with after = 30 minutes until 12:30, a right row of 12:00 with before = 0 until 12:00. With `one_to_one` it
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
  private val oneToOne = Option.when(settings.oneToOne)(new OneToOne(context, bucketWidth))
  private lazy val writer = new PairWriter(columns, settings.marksLate)

  override def write(left: RowBuffer, right: RowBuffer): Unit = written.add(left, right)

  override def passes: Seq[() => Pass] = {
    import window.{after, before}
    Seq(
      () => pairs(written.left, earlierRight, -before, after, probes = Side.Left),
      () => pairs(written.right, earlierLeft ++ written.left, -after, before, probes = Side.Right)
    ) ++ earlier.map { was => () =>
      pairs(earlierLeft, earlierRight, was.after + 1, after, probes = Side.Left)
    }
  }

  private def pairs(
      probing: Seq[LiveSection],
      of: Seq[LiveSection],
      from: Long,
      to: Long,
      probes: Side
  ): Pairs = {
    val found: MatchedPairs = oneToOne match {
      case None => new ArrivalMatches(probing, of, from, to, context)
      case Some(one) => new one.Pairs(probing, of, PairWindow(from, to, probes, closedThrough))
    }
    new Pairs(found, probes)
  }

  /** The pairs of the probing rows with those of the other side. */
  private final class Pairs(pairs: MatchedPairs, probes: Side) extends Pass {
    private val left = new UnsafeRow(columns.left.size)
    private val right = new UnsafeRow(columns.payload.size)
    private val probe = probes.of(left, right)
    private val candidate = probes.of(right, left)
    private val probesAreLeft = probes == Side.Left
    private val labelsEmitted = metric(LabelMetrics.LabelsEmitted)
    private val onArrival = metric(LabelMetrics.MatchedOnArrival)

    private def leftTime: Long = if (probesAreLeft) pairs.probeTime else pairs.candidateTime

    override protected def step(): UnsafeRow =
      if (!pairs.next()) {
        end()
        null
      } else if (leftTime <= closedThrough) null
      else {
        labelsEmitted += 1
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

/** The promise of `one_to_one`: a left row has one match at the most, and so has a right row. Both leave the state when
  * they have been paired.
  *
  * Where the data breaks it, the right rows of a key come by time, and each takes the earliest left row of its window
  * that is free; left rows that come later than their right rows take the earliest of these. Of rows of one time the
  * first by content counts:
  *
  * {{{
  *   window 10 min      left 12:00 12:01      right 12:05 12:06 12:07
  *                      (12:00, 12:05) (12:01, 12:06)      12:07 finds no free row: a match is left out
  * }}}
  *
  * So the pairs depend on the rows of the batch and of the state alone. A key whose rows don't fit in memory is read by
  * [[LargeKeyPairs]], which pairs the same.
  */
private[label] final class OneToOne(context: StoredJoinContext, bucketWidth: Long) extends AutoCloseable {
  import StoreKind.{LeftKeySorted, RightKeySorted}
  import context._

  private val marks = {
    val kinds = Seq(StoreKind.GoneLeft, StoreKind.GoneRight)
    new GoneMarks(store, kinds, memory, bufferBytes, bucketWidth)
  }

  /** The pairs among the matches of the probing rows. They come by key, a chunk at a time. */
  final class Pairs(probing: Seq[LiveSection], sections: Seq[LiveSection], window: PairWindow)
      extends MatchedPairs {
    private val probes = {
      val all = if (sections.isEmpty) Nil else probing
      new RowsInOrder(new MergedSections(all, RunCursor.inOrder(RowOrder.Key), Long.MinValue), context)
    }
    private val (probeKind, otherKind) =
      window.probes.of((LeftKeySorted, RightKeySorted), (RightKeySorted, LeftKeySorted))
    private val goneProbes = marks.gone(probeKind)
    private val gone = marks.gone(otherKind)
    private val leftOut = metric(LabelMetrics.MatchesDropped)

    private val chunk = new RowBuffer(memory)
    private val sectionOf = new ArrayBuffer[LiveSection]
    private val share = new MemoryShare(memory, bufferBytes)
    private val merge = {
      import window.{from, to}
      new SortedMerge(from, to, memory, bufferBytes, large = LargeKeys.Apart, gone = Some(gone))
    }
    import merge.candidates

    // The keys of the chunk's rows before this one end in it.
    private var whole = 0
    private var large: Option[LargeKeyPairs] = None
    private var key = -1L
    // Candidates before `open` are too early for the rows to come, and those before `free` are taken, too.
    private var open = 0
    private var free = 0
    private var position = 0

    override def next(): Boolean = {
      var isFound = false
      var isThere = true
      while (!isFound && isThere) {
        if (large.nonEmpty) isFound = nextOfLarge()
        else if (merge.next()) {
          if (merge.isApart) {
            beginLarge(merge.restOfKey, None)
            merge.skipKey()
          } else isFound = isProbing(chunk.seq(merge.probe), chunk.time(merge.probe)) && pair()
        } else if (whole < chunk.size) {
          beginLarge(Array.range(whole, chunk.size), Some(probes))
          whole = chunk.size
        } else {
          nextChunk()
          isThere = !chunk.isEmpty
        }
      }
      isFound
    }

    private def isProbing(seq: Long, time: Long): Boolean =
      !goneProbes.contains(seq) && !window.isClosed(time)

    private def pair(): Boolean = {
      if (key != merge.piece) {
        key = merge.piece
        open = 0
        free = 0
      }
      val probe = merge.probe
      val end = candidates.first + candidates.count
      val lower = window.lower(chunk.time(probe))
      open = Math.max(open, candidates.first)
      while (open < end && candidates.time(open) < lower) open += 1
      position = Math.max(open, free)
      val isFound = position < end
      if (isFound) {
        free = position + 1
        marks.add(sectionOf(probe), chunk.time(probe), chunk.seq(probe))
        marks.add(candidates.section(position), candidates.time(position), candidates.seq(position))
      }
      leftOut += end - open - (if (isFound) 1 else 0)
      isFound
    }

    private def nextChunk(): Unit = {
      chunk.clear()
      sectionOf.clear()
      share.reset()
      def hasRoom = chunk.isEmpty || !share.isFull(chunk.bytes)
      while (!probes.isEmpty && hasRoom && probes.appendTo(chunk)) sectionOf += probes.section
      whole = chunk.size
      if (whole > 0 && !probes.isEmpty && probes.hasKey(chunk.base(whole - 1), chunk.at(whole - 1))) {
        whole -= 1
        while (whole > 0 && chunk.compareKeys(whole - 1, chunk.size - 1) == 0) whole -= 1
      }
      merge.start(chunk, Array.range(0, whole), sections)
    }

    /** @param rows of the key, in the chunk
      * @param more where the others are, if it continues behind the chunk
      */
    private def beginLarge(rows: Array[Int], more: Option[RowsInOrder]): Unit = {
      val ofKey = new KeyProbes(chunk, sectionOf, rows, more, memory)
      large = Some(new LargeKeyPairs(ofKey, sections, window, isProbing, gone, leftOut, context))
    }

    private def nextOfLarge(): Boolean = {
      val pairs = large.get
      val isFound = pairs.next()
      if (isFound) {
        marks.add(pairs.probeSection, pairs.probeTime, pairs.probeSeq)
        marks.add(pairs.candidateSection, pairs.candidateTime, pairs.candidateSeq)
      } else endLarge()
      isFound
    }

    private def endLarge(): Unit = {
      large.foreach(_.close())
      large = None
    }

    override def probeTime: Long = large.fold(chunk.time(merge.probe))(_.probeTime)
    override def candidateTime: Long = large.fold(candidates.time(position))(_.candidateTime)

    override def pointTo(probe: UnsafeRow, candidate: UnsafeRow): Unit = large match {
      case Some(pairs) => pairs.pointTo(probe, candidate)
      case None =>
        val row = merge.probe
        probe.pointTo(chunk.base(row), chunk.valueOffset(row), chunk.valueLength(row))
        candidates.pointTo(candidate, position): Unit
    }

    override def close(): Unit = {
      endLarge()
      Seq(probes, merge, chunk).foreach(_.close())
    }
  }

  /** Writes what has gone. @return how many rows that is */
  def settle(): Long = marks.settle()

  /** Drops marks of rows that have left with their sections: see [[io.tailrace.state.TailraceStateStore]]. */
  def dropThrough(left: Long, right: Long): Unit = {
    store.dropThrough(StoreKind.GoneLeft, left): Unit
    store.dropThrough(StoreKind.GoneRight, right): Unit
  }

  override def close(): Unit = marks.close()
}

/** Where the partners of probing rows are.
  *
  * @param from          a partner is at least at a probing row's time plus this
  * @param to            and at most at its time plus this
  * @param probes        the side that probes
  * @param closedThrough left rows up to this time get none
  */
private[label] final case class PairWindow(
    from: Long,
    to: Long,
    probes: Side,
    closedThrough: Long
) {
  import JoinWindow.saturatingAdd

  private val probesAreLeft = probes == Side.Left

  def isClosed(probeTime: Long): Boolean = probesAreLeft && probeTime <= closedThrough

  def lower(probeTime: Long): Long = {
    val first = saturatingAdd(probeTime, from)
    if (probesAreLeft) first else Math.max(first, saturatingAdd(closedThrough, 1L))
  }

  def upper(probeTime: Long): Long = saturatingAdd(probeTime, to)
}

/** The pairs of one key, of [[OneToOne]], whose rows don't fit in memory. Both sides are read once, in order, a row at a
  * time. Two more ways through the candidates, behind and ahead, count the matches of each probing row:
  *
  * {{{
  *   probing rows, in order        12:05
  *                                 its window
  *                             ├───────────────────┤
  *   candidates, in order      behind    free      ahead
  *                             11:55     12:01     12:05
  *                                       it takes this one; those before it are taken, or too early
  * }}}
  *
  * The caller adds each row that is taken to `gone` before it asks for the next pair.
  *
  * @param sections of the candidates
  * @param gone     candidates that nobody gets
  * @param leftOut  counts matches that aren't pairs
  */
private[label] final class LargeKeyPairs(
    probes: KeyProbes,
    sections: Seq[LiveSection],
    window: PairWindow,
    isProbing: (Long, Long) => Boolean,
    gone: GoneRows,
    leftOut: SQLMetric,
    context: StoredJoinContext
) extends MatchedPairs {
  private val begin = window.lower(probes.firstTime)
  private val taken = new GoneRows

  // Those behind count as long as those ahead have counted them.
  private val behind = new CountedRows(rows(seq => gone.contains(seq) && !taken.contains(seq)))
  private val ahead = new CountedRows(rows(gone.contains))
  private val free = new RowsInOrder(rows(gone.contains), context)
  private val candidate = new RowBuffer(context.memory)

  private def rows(isHidden: Long => Boolean): SectionRows =
    new SectionRows(probes.base, probes.at, begin, Long.MaxValue, sections, row => isHidden(row.seq))

  override def next(): Boolean = {
    var isFound = false
    while (!isFound && probes.next()) isFound = isProbing(probes.seq, probes.time) && pair()
    isFound
  }

  private def pair(): Boolean = {
    val lower = window.lower(probes.time)
    val upper = window.upper(probes.time)
    ahead.countTo(_ <= upper)
    behind.countTo(_ < lower)
    free.dropBefore(lower)
    val isFound = !free.isEmpty && free.time <= upper
    if (isFound) {
      candidate.clear()
      free.appendTo(candidate): Unit
      taken.add(candidateSeq)
    }
    leftOut += ahead.count - behind.count - (if (isFound) 1 else 0)
    isFound
  }

  def probeSection: LiveSection = probes.section
  def probeSeq: Long = probes.seq
  override def probeTime: Long = probes.time

  def candidateSection: LiveSection = free.section
  def candidateSeq: Long = candidate.seq(0)
  override def candidateTime: Long = candidate.time(0)

  override def pointTo(probe: UnsafeRow, other: UnsafeRow): Unit = {
    probes.pointTo(probe)
    other.pointTo(candidate.base(0), candidate.valueOffset(0), candidate.valueLength(0))
  }

  override def close(): Unit = Seq(probes, behind, ahead, free, candidate).foreach(_.close())
}

/** Counts rows up to a time that goes up. */
private final class CountedRows(rows: SectionRows) extends AutoCloseable {
  var count = 0L

  def countTo(isThere: Long => Boolean): Unit = while (!rows.isEmpty && isThere(rows.time)) {
    count += 1
    rows.drop()
  }

  override def close(): Unit = rows.close()
}

/** The probing rows of one key, in order: some of a chunk, and, if the key continues behind the chunk, the next ones.
  *
  * @param sectionOf a row of the chunk
  */
private[label] final class KeyProbes(
    chunk: RowBuffer,
    sectionOf: Int => LiveSection,
    rows: Array[Int],
    more: Option[RowsInOrder],
    memory: RowMemory
) extends AutoCloseable {
  private val one = new RowBuffer(memory)
  private var position = -1

  /** A row with the key: see [[io.tailrace.state.RowLayout]]. */
  def base: AnyRef = chunk.base(rows.head)
  def at: Long = chunk.at(rows.head)
  def firstTime: Long = chunk.time(rows.head)

  /** Goes on to the next row. @return false if there is none */
  def next(): Boolean = {
    position += 1
    isInChunk || more.exists { others =>
      !others.isEmpty && others.hasKey(base, at) && {
        one.clear()
        others.appendTo(one)
      }
    }
  }

  private def isInChunk: Boolean = position < rows.length
  private def buffer: RowBuffer = if (isInChunk) chunk else one
  private def row: Int = if (isInChunk) rows(position) else 0

  def time: Long = buffer.time(row)
  def seq: Long = buffer.seq(row)
  def section: LiveSection = if (isInChunk) sectionOf(row) else more.get.section

  def pointTo(to: UnsafeRow): Unit =
    to.pointTo(buffer.base(row), buffer.valueOffset(row), buffer.valueLength(row))

  override def close(): Unit = one.close()
}

/** Rows of key-sorted sections by key, time and content. Sections have rows of one key and time in the order in which
  * they came, which another try of the batch, or another number of partitions, may change:
  *
  * {{{
  *   sections    (A,12:00) z   (A,12:00) x   (A,12:01) y        in the order of arrival
  *   here        (A,12:00) x   (A,12:00) z   (A,12:01) y
  * }}}
  *
  * Rows of one key and time are sorted in local files if they don't fit in memory.
  *
  * @param rows by key and time
  */
private[label] final class RowsInOrder(rows: CursorRows, context: StoredJoinContext) extends AutoCloseable {
  import context.{bufferBytes, memory, store}

  // Rows of one key and time, with their origins: places in `tiesOf`.
  private lazy val ties: OrderedRows = new OrderedRows(store, memory, bufferBytes, () => ties.makeRoom())
  private val tiesOf = new ArrayBuffer[LiveSection]
  private var hasTies = false
  private var isTied = false
  private val origins = new RowOrigins
  private var from: LiveSection = _

  def isEmpty: Boolean = !isTied && rows.isEmpty

  /** The time of the next row. */
  def time: Long = if (isTied) RowLayout.time(ties.base, ties.at) else rows.head.time

  /** True if the next row has the key of a row: see [[io.tailrace.state.RowLayout]]. */
  def hasKey(base: AnyRef, at: Long): Boolean =
    if (!isTied) rows.head.compareKey(base, at) == 0
    else {
      val prefix = RowLayout.keyPrefix(base, at)
      RowLayout.compareKeys(ties.keyPrefix, ties.base, ties.at, prefix, base, at) == 0
    }

  /** Appends the next row to others. Where there is none, it must have room.
    *
    * @return false: there is no room for it, and it is still the next one
    */
  def appendTo(to: RowBuffer): Boolean =
    if (isTied) appendTied(to)
    else
      to.appendIfRoom(rows.head.base, rows.head.at) && {
        from = rows.headSection
        rows.drop()
        val last = to.size - 1
        !isTie(to.time(last), to.base(last), to.at(last)) || {
          gather(to)
          appendTied(to)
        }
      }

  /** The section of the row that was appended last. */
  def section: LiveSection = from

  /** Leaves out the rows before a time. For rows of one key. */
  def dropBefore(until: Long): Unit = {
    if (isTied && time < until) endTies()
    while (!isTied && !rows.isEmpty && rows.head.time < until) rows.drop()
  }

  private def isTie(time: Long, base: AnyRef, at: Long): Boolean =
    !rows.isEmpty && rows.head.time == time && rows.head.compareKey(base, at) == 0

  /** Takes the last row back, and sorts it with all others of its key and time. */
  private def gather(to: RowBuffer): Unit = {
    val last = to.size - 1
    val key = RowLayout.keyBytes(to.base(last), to.at(last))
    val (probe, time) = (RowLayout.ofKey(key, key.length), to.time(last))
    hasTies = true
    tie(to.base(last), to.at(last), from)
    to.truncate(last)
    while (isTie(time, probe, RowOrigins.Start)) {
      tie(rows.head.base, rows.head.at, rows.headSection)
      rows.drop()
    }
    ties.start()
    isTied = ties.next()
  }

  private def tie(base: AnyRef, at: Long, of: LiveSection): Unit = {
    if (tiesOf.isEmpty || (tiesOf.last ne of)) tiesOf += of
    ties.append(origins.note(base, at, tiesOf.size - 1), RowOrigins.Start)
  }

  private def appendTied(to: RowBuffer): Boolean = {
    val (base, at) = (ties.base, ties.at)
    val key = RowLayout.keyBytes(base, at)
    val valueAt = RowLayout.valueAt(base, at)
    val length = RowOrigins.valueLength(base, at)
    val (seq, of) = (RowOrigins.seq(base, at), RowOrigins.section(base, at))
    val hasRoom =
      try {
        to.append(key, key.length, RowLayout.time(base, at), seq, base, valueAt, length): Unit
        true
      } catch { case _: RowMemoryExhausted if !to.isEmpty => false }
    if (hasRoom) {
      from = tiesOf(of)
      if (!ties.next()) endTies()
    }
    hasRoom
  }

  private def endTies(): Unit = {
    isTied = false
    tiesOf.clear()
    ties.restart()
  }

  override def close(): Unit = {
    isTied = false
    rows.close()
    if (hasTies) ties.close()
  }
}
