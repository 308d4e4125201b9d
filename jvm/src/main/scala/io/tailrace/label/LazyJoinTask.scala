package io.tailrace.label

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import io.tailrace.join.StoredJoinContext
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
  *   then left sections up to there and right sections that nobody can match any more are dropped whole
  * }}}
  *
  * With after = 30 minutes and a watermark that goes from 12:20 to 12:35, left rows after 11:50 and up to
  * 12:05 are emitted. Right rows of 12:05 are still needed, for a left row of 12:06.
  */
final class LazyJoinTask(context: StoredJoinContext, settings: JoinSettings, times: LabelJoinTimes)
    extends LabelJoinTask(context, settings, times) {
  import context._
  import times._

  private val leftKind = StoreKind.LeftTimeSorted

  private val work = new GroupWork(context, settings)
  private var expiring: Option[ExpiringPass] = None
  private var open: Option[GroupPass] = None

  /** This batch, if it has taken late rows. */
  private def ofThisBatch: Option[LateRows] =
    Option.when(lateRightsTaken > 0)(LateRows(store.version + 1, lateWatermark))

  /** Batches that have taken late rows, with this one. */
  private def lateBatches: Seq[LateRows] = store.lateRows ++ ofThisBatch

  private val waited =
    grown.map(g => g.copy(after = JoinWindow.saturatingAdd(g.after, settings.amendFor.getOrElse(0L))))

  private def lateRights(to: Long): LateRights = new LateRights(lateBatches, to, waited)

  override protected def write(left: RowBuffer, right: RowBuffer): Unit = {
    import StoreKind.RightKeySorted
    // Imported rows don't come in the order of their sequence numbers.
    val rights =
      if (!columns.areImported) SortedRows.all(RightKeySorted, right, bucketWidth)
      else SortedRows.ofSorted(RightKeySorted, right, RowSort.byKeyTimeAndSeq(right), bucketWidth)
    store.addSorted(Seq(SortedRows.all(leftKind, left, bucketWidth), rights)): Unit
  }

  /** Amended rows first: the others have all rows of this batch already. */
  override protected def joined: Iterator[UnsafeRow] =
    (amended ++ passes.map(pass => () => expiringIn(pass))).iterator.flatMap { newPass =>
      open.foreach(_.close())
      val pass = newPass()
      open = Some(pass)
      pass
    }

  private def amended: Seq[() => GroupPass] =
    amendments.filter(_.hasNoted).toSeq.map { these => () =>
      new AmendedPass(work, these.lefts(), LateRights.since(store.version + 1))
    }

  /** Earlier horizons first: of a left row that reaches several of them at once, the versions come out in order. */
  private def passes: Seq[Pass] = {
    val window = settings.window
    val earlier = settings.horizons.toSeq.flatMap { horizons =>
      def through(horizon: Int, watermark: Long) =
        Math.max(store.expiredThrough, horizons.through(horizon, watermark, window.before, release))
      horizons.ends.indices.init.map { i =>
        val to = (Seq(through(i, watermark)) ++ closed).max
        Pass(i, through(i, store.operatorTime), to, horizons.ends(i), isFinal = false)
      }
    }
    earlier :+ Pass(earlier.size, store.expiredThrough, this.through, window.after, isFinal = true)
  }

  private def expiringIn(pass: Pass): GroupPass = {
    val groups = new ExpiringPass(work, pass, lateRights, amendments, closing)
    if (pass.isFinal) expiring = Some(groups)
    groups
  }

  override def expiryNanos: Long = work.nanos

  override def expire(): Long = {
    val taken = expiring.fold(Map.empty[LiveSection, Long])(_.taken)
    store.markExpired(leftKind, through, taken.getOrElse(_, 0L))
    store.dropThrough(leftKind, through)
    val first = settings.horizons.fold(settings.takesFor)(_.ends.head)
    val late = lateBatches.filter(LateRights.closed(_, first, waited) > through)
    store.setLateRows(late, amendments.map(_.afterNext))
    if (settings.horizons.nonEmpty) keepWatermark()
    val unamendable = amendments.fold(Amendments.forget(store))(_.expire())
    val needed = amendments.fold(through)(_.neededAfter(through))
    taken.values.sum + unamendable +
      store.dropThrough(StoreKind.RightKeySorted, window.rightExpiryAtWindowEnd(needed))
  }

  override def close(): Unit = {
    open.foreach(_.close())
    work.close()
    super.close()
  }
}
