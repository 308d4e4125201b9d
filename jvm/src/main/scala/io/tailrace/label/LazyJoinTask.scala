package io.tailrace.label

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import io.tailrace.common.{MemoryErrors, RowMemoryExhausted, StepwiseRows}
import io.tailrace.join.{ExpiringRows, StoredJoinContext}
import io.tailrace.state.{LateRows, LiveSection, MemoryShare, RowBuffer, RowSort, StoreKind}

/** Lazy matching: nothing is looked up when a row arrives. When left rows expire, they are read in the
  * order of time, a chunk at a time. Each chunk is sorted by key and merged with the right rows of its
  * windows.
  *
  * {{{
  *   batch ──sort──> one run: left rows by time, right rows by key, in time buckets
  *
  *   watermark passes left_time + after:
  *     left-time-sorted ──scan (expired, now]──> chunk ──sort by key──┐
  *     right-key-sorted ── sections that the chunk's windows reach ───┴─ merge ──> (left row, [right rows])
  *   then left sections up to there and right sections that nobody can match any more are dropped whole
  * }}}
  *
  * With after = 30 minutes and a watermark that goes from 12:20 to 12:35, left rows after 11:50 and up to
  * 12:05 come out. Right rows of 12:05 are still needed, for a left row of 12:06.
  */
final class LazyJoinTask(context: StoredJoinContext, settings: JoinSettings, times: LabelJoinTimes)
    extends LabelJoinTask(context, settings, times) {
  import context._
  import times._

  private val leftKind = StoreKind.LeftTimeSorted

  private val chunk = new RowBuffer(memory)
  private val share = new MemoryShare(memory, bufferBytes)
  private val parked = new ParkedRows
  private lazy val writer = settings.form.writer(columns, settings, memory)
  private var nanos = 0L
  private var expiring: Option[ExpiringRows] = None
  private var open: Option[Groups] = None

  /** Batches that have taken late rows, with this one. */
  private def lateBatches: Seq[LateRows] =
    store.lateRows ++ Option.when(lateRightsTaken > 0)(LateRows(store.version + 1, lateWatermark))

  private def lateRights(to: Long): LateRights = new LateRights(lateBatches, to)

  override protected def write(left: RowBuffer, right: RowBuffer): Unit =
    store.addRun(bucketWidth, leftKind -> left, StoreKind.RightKeySorted -> right)

  /** Earlier horizons first: of a left row that reaches several of them at once, the versions come out in order. */
  override protected def joined: Iterator[UnsafeRow] = {
    val window = settings.window
    val earlier = settings.horizons.toSeq.flatMap { horizons =>
      def through(horizon: Int, watermark: Long) =
        Math.max(store.expiredThrough, horizons.through(horizon, watermark, window.before, release))
      horizons.ends.indices.init.map { i =>
        val to = (Seq(through(i, watermark)) ++ closed).max
        Pass(i, through(i, store.operatorTime), to, horizons.ends(i), isFinal = false)
      }
    }
    val last = Pass(earlier.size, store.expiredThrough, this.through, window.after, isFinal = true)
    (earlier :+ last).iterator.flatMap { pass =>
      open.foreach(_.close())
      val groups = new Groups(pass)
      open = Some(groups)
      groups
    }
  }

  /** The left rows of a pass, each with its group: one in a step. */
  private final class Groups(pass: Pass) extends StepwiseRows[UnsafeRow] with AutoCloseable {
    private val rows = new ExpiringRows(store, leftKind, pass.from, pass.through)
    if (pass.isFinal) expiring = Some(rows)
    private val merge = mergeTo(pass.to)
    private val earlier = settings.horizons.flatMap(_.earlier(pass.horizon)).map { end =>
      new EarlierVersion(end, settings.form.change(columns), lateRights(end), memory, () => mergeTo(end))
    }
    private val rightSections = store.sectionsOf(StoreKind.RightKeySorted)
    private val leftRow = new UnsafeRow(columns.left.size)
    private val counts = new GroupCounts(metric)
    private var found = 0L
    private var versions = 0L

    private def mergeTo(end: Long) =
      new SortedMerge(-window.before, end, memory, bufferBytes, settings.bound, late = lateRights(end))

    override protected def step(): UnsafeRow = {
      var hasProbe = true
      var row: UnsafeRow = null
      try {
        hasProbe = merge.next()
        if (hasProbe && comesOut()) row = write()
      } catch { case e: RowMemoryExhausted => parkOthers(e) }
      if (!hasProbe) nextChunk()
      row
    }

    private def comesOut(): Boolean = earlier.forall { before =>
      val change = before.compare(pointTo(leftRow, chunk, merge.probe), merge, chunk, rightSections)
      writer.versionIs(pass.horizon, hasEarlier = true, change.isChanged)
      settings.horizons.get.emit.comesOut(pass.isFinal, change)
    }

    private def write(): UnsafeRow = {
      if (earlier.isEmpty) writer.versionIs(pass.horizon, hasEarlier = false, changed = false)
      val probe = merge.probe
      val row = writer.write(pointTo(leftRow, chunk, probe), chunk.time(probe), Matches.of(merge))
      if (pass.isFinal) {
        counts.add(writer)
        countOut(chunk.time(probe))
        found += merge.matched
      } else versions += 1
      row
    }

    /** Left rows that were parked come before those that have yet to be read. */
    private def nextChunk(): Unit = {
      val started = System.nanoTime
      chunk.clear()
      if (parked.fill(chunk)) startParked()
      else {
        share.reset()
        rows.fill(chunk, share)
        start(RowSort.byKey(chunk))
      }
      nanos += System.nanoTime - started
      if (chunk.isEmpty) {
        counts.report()
        if (pass.isFinal) reportOut()
        metric(LabelMetrics.MatchedAtExpiry) += found
        metric(LabelMetrics.VersionsOut) += versions
        end()
      }
    }

    private def start(sorted: Array[Int]): Unit = {
      earlier.foreach(_.restart())
      merge.start(chunk, sorted, rightSections)
    }

    private def startParked(): Unit = start(Array.range(0, chunk.size))

    /** Tries the same left row again with more memory: the rows behind it go to disk, until it is alone. */
    private def parkOthers(failure: RowMemoryExhausted): Unit = {
      val rest = merge.rest
      if (rest.length <= 1)
        throw MemoryErrors.groupTooLarge(merge.candidates.size, merge.candidates.bytes, failure)
      merge.release()
      earlier.foreach(_.release())
      writer.close()
      parked.park(store, chunk, rest)
      parked.fill(chunk)
      startParked()
    }

    override def close(): Unit = {
      rows.close()
      merge.close()
      earlier.foreach(_.close())
    }
  }

  override def expiryNanos: Long = nanos

  override def expire(): Long = {
    val taken = expiring.fold(Map.empty[LiveSection, Long])(_.taken)
    store.markExpired(leftKind, through, taken.getOrElse(_, 0L))
    store.dropThrough(leftKind, through)
    val first = JoinWindow(0, settings.horizons.fold(window.after)(_.ends.head))
    store.setLateRows(lateBatches.filter(batch => first.leftExpiry(batch.watermark) > through))
    if (settings.horizons.nonEmpty) keepWatermark()
    taken.values.sum + store.dropThrough(StoreKind.RightKeySorted, window.rightExpiryAtWindowEnd(through))
  }

  override def close(): Unit = {
    open.foreach(_.close())
    parked.close()
    writer.close()
    chunk.close()
    super.close()
  }
}
