package io.tailrace.label

import io.tailrace.join.Pass
import io.tailrace.state.{LateRows, LiveSection, RowBuffer, RowSort, SortedRows, StoreKind}

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
  *   then left sections up to there and right sections that no row can match any longer are dropped whole
  * }}}
  *
  * With after = 30 minutes and a watermark that goes from 12:20 to 12:35, left rows after 11:50 and up to
  * 12:05 are emitted. Right rows of 12:05 are still needed, for a left row of 12:06.
  */
private[label] final class LazyMatching(batch: LabelBatch) extends LabelMatching {
  import batch.context._
  import batch.times._
  import batch.{amendments, context, settings, window}

  private val leftKind = StoreKind.LeftTimeSorted

  private val work = new GroupWork(context, settings)
  private var expiring: Option[ExpiringGroups] = None

  /** This batch, if it has taken late rows. */
  private def ofThisBatch: Option[LateRows] =
    Option.when(batch.lateRightsTaken > 0)(LateRows(store.version + 1, lateWatermark))

  /** Batches that have taken late rows, with this one. */
  private def lateBatches: Seq[LateRows] = store.lateRows ++ ofThisBatch

  private val waited =
    grown.map(g => g.copy(after = JoinWindow.saturatingAdd(g.after, settings.amendFor.getOrElse(0L))))

  private def lateRights(to: Long): LateRights = new LateRights(lateBatches, to, waited)

  override def write(left: RowBuffer, right: RowBuffer): Unit = {
    import StoreKind.RightKeySorted
    // Imported rows don't come in the order of their sequence numbers.
    val rights =
      if (!columns.areImported) SortedRows.all(RightKeySorted, right, bucketWidth)
      else SortedRows.ofSorted(RightKeySorted, right, RowSort.byKeyTimeAndSeq(right), bucketWidth)
    store.addSorted(Seq(SortedRows.all(leftKind, left, bucketWidth), rights)): Unit
  }

  /** Amended rows first: the others have all rows of this batch already. */
  override def passes: Seq[() => Pass] =
    amendments.toSeq.map(these => () => amended(these)) ++ horizonPasses.map(pass => () => expiringIn(pass))

  private def amended(these: Amendments): Pass =
    if (!these.hasNoted) Pass.none
    else {
      val lefts = new AmendedGroups(work, these.lefts())
      val before = work.earlierTo(window.after, LateRights.since(store.version + 1))
      new GroupPass(work, lefts, work.mergeTo(window.after, LateRights.None), Some(before))
    }

  /** Earlier horizons first: of a left row that reaches several of them at once, the versions are emitted in order. */
  private def horizonPasses: Seq[HorizonPass] = {
    val earlier = settings.horizons.toSeq.flatMap { horizons =>
      def through(horizon: Int, watermark: Long) =
        Math.max(store.expiredThrough, horizons.through(horizon, watermark, window.before, release))
      horizons.ends.indices.init.map { i =>
        val to = (Seq(through(i, watermark)) ++ closed).max
        HorizonPass(i, through(i, store.operatorTime), to, horizons.ends(i), isFinal = false)
      }
    }
    earlier :+ HorizonPass(earlier.size, store.expiredThrough, batch.through, window.after, isFinal = true)
  }

  private def expiringIn(pass: HorizonPass): Pass = {
    val groups = new ExpiringGroups(work, pass, amendments, batch.closing)
    if (pass.isFinal) expiring = Some(groups)
    val late = lateRights(if (pass.isFinal) settings.takesFor else pass.to)
    val before = settings.horizons.flatMap(_.earlier(pass.horizon)).map(end => work.earlierTo(end, lateRights(end)))
    new GroupPass(work, groups, work.mergeTo(pass.to, late), before)
  }

  override def expiryNanos: Long = work.nanos

  override def expire(): Long = {
    val taken = expiring.fold(Map.empty[LiveSection, Long])(_.taken)
    store.markExpired(leftKind, batch.through, taken.getOrElse(_, 0L))
    store.dropThrough(leftKind, batch.through)
    val first = settings.horizons.fold(settings.takesFor)(_.ends.head)
    val late = lateBatches.filter(LateRights.closed(_, first, waited) > batch.through)
    store.setLateRows(late, amendments.map(_.afterNext))
    if (settings.horizons.nonEmpty) batch.keepWatermark()
    val unamendable = amendments.fold(Amendments.forget(store))(_.expire())
    val needed = amendments.fold(batch.through)(_.neededAfter(batch.through))
    taken.values.sum + unamendable +
      store.dropThrough(StoreKind.RightKeySorted, window.rightExpiryAtWindowEnd(needed))
  }

  override def close(): Unit = work.close()
}
