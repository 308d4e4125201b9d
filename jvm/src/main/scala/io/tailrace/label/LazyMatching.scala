package io.tailrace.label

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import io.tailrace.common.{Mark, MemoryErrors, RowMemoryExhausted}
import io.tailrace.join.{ExpiringRows, Pass, StoredJoinContext}
import io.tailrace.state._

/** Lazy matching: nothing is looked up when a row arrives. When left rows expire, they are read in the
  * order of time, a chunk at a time. Each chunk is sorted by key and merged with the right rows of its
  * windows.
  *
  * {{{
  *   batch ──sort──> one run: left rows by time, right rows by key, in time buckets
  *
  *   watermark reaches left_time + after:
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
  private val orphans = Option.when(settings.orphans)(new Orphans(batch))

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

  /** Amended rows first: the others have all rows of this batch already. Orphans last: then all matches are noted. */
  override def passes: Seq[() => Pass] =
    amendments.toSeq.map(these => () => amended(these)) ++
      horizonPasses.map(pass => () => expiringIn(pass)) ++ orphans.map(these => () => these.pass())

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
    val groups = new ExpiringGroups(work, pass, amendments, batch.closing, incompleteAfter)
    if (pass.isFinal) expiring = Some(groups)
    val late = lateRights(if (pass.isFinal) settings.takesFor else pass.to)
    val before =
      settings.horizons.flatMap(_.earlier(pass.horizon)).map(end => work.earlierTo(end, lateRights(end)))
    val matched = orphans.map(_.matched)
    val ofMerge = matched.filter(_ => settings.form.matchesAll)
    new GroupPass(work, groups, work.mergeTo(pass.to, late, ofMerge), before, matched)
  }

  override def expiryNanos: Long = work.nanos

  override def expire(): Long = {
    val taken = expiring.fold(Map.empty[LiveSection, Long])(_.taken)
    store.markExpired(leftKind, batch.through, taken.getOrElse(_, 0L))
    store.dropThrough(leftKind, batch.through)
    val first = settings.horizons.fold(settings.takesFor)(_.ends.head)
    val late = lateBatches.filter(LateRights.closed(_, first, waited) > batch.through)
    store.setLateRows(late, amendments.map(_.afterNext))
    if (settings.horizons.nonEmpty) batch.keepWatermark() else store.setOperatorTime(batch.shutThrough)
    val unamendable = amendments.fold(Amendments.forget(store))(_.expire())
    val needed = amendments.fold(batch.through)(_.neededAfter(batch.through))
    taken.values.sum + unamendable + orphans.fold(
      store.dropThrough(StoreKind.RightKeySorted, window.rightExpiryAtWindowEnd(needed))
    )(_.expire())
  }

  override def close(): Unit = {
    orphans.foreach(_.close())
    work.close()
  }
}

/** The memory and the writer that the passes of a task share: only one of them is open at a time. */
private[label] final class GroupWork(val context: StoredJoinContext, val settings: JoinSettings)
    extends AutoCloseable {
  import context.{bufferBytes, columns, memory}

  val chunk = new RowBuffer(memory)
  val share = new MemoryShare(memory, bufferBytes)
  val parked = new ParkedRows
  lazy val writer: GroupWriter = settings.groupWriter(columns, memory)

  /** Spent on finding left rows, and where their matches are. */
  var nanos = 0L

  /** A merge of left rows with what they match up to `end` after their time.
    *
    * @param matched notes these right rows
    */
  def mergeTo(end: Long, late: LateRights, matched: Option[MatchSink] = None): SortedMerge =
    new SortedMerge(
      -settings.window.before,
      end,
      memory,
      bufferBytes,
      settings.bound,
      late = late,
      notes = matched
    )

  /** The version of left rows with what they had matched up to `end` after their time. */
  def earlierTo(end: Long, late: LateRights): EarlierVersion =
    new EarlierVersion(end, settings.form.change(columns), late, memory, () => mergeTo(end, late))

  override def close(): Unit = {
    parked.close()
    writer.close()
    chunk.close()
  }
}

/** The left rows of a pass, and what becomes of each. */
private[label] trait GroupedLefts extends AutoCloseable {

  /** Fills an empty chunk. @return the numbers of its rows, by key and time */
  def fill(chunk: RowBuffer): Array[Int]

  /** True if the left row of the merge is emitted. Sets the writer's version and mark.
    *
    * @param time   of the row
    * @param change from its earlier version, if there is something to compare with
    */
  def isEmitted(time: Long, change: Option[GroupChange]): Boolean

  /** A left row was written.
    *
    * @param row     its number in the chunk
    * @param matched how many right rows match it
    */
  def written(row: Int, left: UnsafeRow, matched: Int): Unit

  /** Runs once, after the last left row: adds to the metrics. */
  def report(): Unit
}

/** One way through left rows, each with its group: one in a step. They come a chunk at a time, which is sorted by key
  * and merged with the right rows of its windows.
  *
  * @param merge   of left rows with the right rows that they get
  * @param earlier what the left rows had before, to compare with
  * @param matched notes the right rows of the groups
  */
private[label] final class GroupPass(
    work: GroupWork,
    lefts: GroupedLefts,
    merge: SortedMerge,
    earlier: Option[EarlierVersion],
    matched: Option[MatchedRights] = None
) extends Pass {
  import work.context.{columns, store}
  import work.{chunk, parked, share, writer}

  private val rightSections = store.sectionsOf(StoreKind.RightKeySorted)
  private val leftRow = new UnsafeRow(columns.left.size)
  private val twins = columns.identityOrdinal.map(new ChunkTwins(_, columns.left.size))
  matched.foreach(writer.matchedAre(_))

  override protected def step(): UnsafeRow = {
    var hasProbe = true
    var row: UnsafeRow = null
    try {
      hasProbe = merge.next()
      if (hasProbe && isDue) row = write()
    } catch { case e: RowMemoryExhausted => parkOthers(e) }
    if (!hasProbe) nextChunk()
    row
  }

  private def isDue: Boolean = {
    val probe = merge.probe
    leftRow.pointTo(chunk.base(probe), chunk.valueOffset(probe), chunk.valueLength(probe))
    val time = chunk.time(probe)
    lefts.isEmitted(time, earlier.map(_.compare(leftRow, merge, chunk, rightSections, twin)))
  }

  private def twin: Int = twins.fold(0)(_ => ChunkTwins.of(chunk, merge.probe))

  private def write(): UnsafeRow = {
    matched.foreach(_.leftIs(chunk.base(merge.probe), chunk.at(merge.probe)))
    val row = writer.write(leftRow, chunk.time(merge.probe), merge.matchesOf(twin))
    lefts.written(merge.probe, leftRow, merge.matched)
    row
  }

  /** Left rows that were parked come before those that have yet to be read. */
  private def nextChunk(): Unit = {
    val started = System.nanoTime
    chunk.clear()
    if (parked.fill(chunk)) startParked()
    else {
      share.reset()
      val sorted = lefts.fill(chunk)
      twins.foreach(_.number(chunk, sorted))
      start(sorted)
    }
    work.nanos += System.nanoTime - started
    if (chunk.isEmpty) {
      lefts.report()
      matched.foreach(_.flush())
      end()
    }
  }

  private def start(sorted: Array[Int]): Unit = {
    earlier.foreach(_.restart())
    merge.start(chunk, sorted, rightSections)
  }

  private def startParked(): Unit = start(Array.range(0, chunk.size))

  /** Tries the same left row again with more memory: the rows after it go to disk, until it is alone. */
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
    lefts.close()
    merge.close()
    earlier.foreach(_.close())
  }
}

/** The left rows of a pass that expire, or reach a horizon.
  *
  * @param keeper  keeps what may be amended later of a left row that has its final version
  * @param closing counts left rows that are emitted before the watermark lets them
  * @param incompleteAfter left rows after this time are emitted without an excluded stream; none: there is none
  */
private[label] final class ExpiringGroups(
    work: GroupWork,
    pass: HorizonPass,
    keeper: Option[Amendments],
    closing: ClosedRows,
    incompleteAfter: Option[Long]
) extends GroupedLefts {
  import ExpiringGroups.Excluded
  import work.context.{metric, store}
  import work.{chunk, settings, writer}

  private val rows = new ExpiringRows(store, StoreKind.LeftTimeSorted, pass.from, pass.through)
  private val counts = new GroupCounts(metric)
  private var found = 0L
  private var versions = 0L
  private var incomplete = 0L

  private def isIncomplete(time: Long): Boolean = incompleteAfter.exists(time > _)

  /** The number of rows it has given, of each section. */
  def taken: Map[LiveSection, Long] = rows.taken

  override def fill(into: RowBuffer): Array[Int] = {
    rows.fill(into, work.share)
    RowSort.byKey(into)
  }

  override def isEmitted(time: Long, change: Option[GroupChange]): Boolean = {
    writer.markIs(if (isIncomplete(time)) Excluded else null)
    writer.versionIs(pass.horizon, change.nonEmpty, change.exists(_.isChanged))
    change.forall(c => settings.horizons.get.emit.includes(pass.isFinal, c.isChanged, c.hasGained))
  }

  override def written(row: Int, left: UnsafeRow, matched: Int): Unit =
    if (pass.isFinal) {
      keeper.foreach(_.keep(chunk, row, left))
      counts.add(writer)
      closing.add(chunk.time(row))
      if (isIncomplete(chunk.time(row))) incomplete += 1
      found += matched
    } else versions += 1

  override def report(): Unit = {
    keeper.foreach(_.flushKept())
    counts.report()
    if (pass.isFinal) closing.report()
    metric(LabelMetrics.MatchedAtExpiry) += found
    metric(LabelMetrics.VersionsEmitted) += versions
    metric(LabelMetrics.EmittedIncomplete) += incomplete
  }

  override def close(): Unit = rows.close()
}

private object ExpiringGroups {
  private val Excluded = Mark.Excluded.text
}

/** The left rows that are amended, each with its new group. */
private[label] final class AmendedGroups(work: GroupWork, lefts: AmendedLefts) extends GroupedLefts {
  import work.{settings, writer}

  private var amended = 0L

  override def fill(chunk: RowBuffer): Array[Int] = lefts.fill(chunk, work.share)

  override def isEmitted(time: Long, change: Option[GroupChange]): Boolean = {
    val isChanged = change.exists(_.isChanged)
    if (isChanged) {
      writer.markIs(AmendedGroups.Amended)
      writer.versionIs(settings.horizons.fold(0)(_.ends.size - 1), hasEarlier = true, changed = true)
    }
    isChanged
  }

  override def written(row: Int, left: UnsafeRow, matched: Int): Unit = amended += 1

  override def report(): Unit = work.context.metric(LabelMetrics.AmendmentsEmitted) += amended

  override def close(): Unit = lefts.close()
}

private object AmendedGroups {
  private val Amended = Mark.Amended.text
}

/** One way through the left rows of a partition, for one horizon.
  *
  * @param from,through the left rows after `from`, up to `through`
  * @param to           the horizon, microseconds
  */
private[label] final case class HorizonPass(
    horizon: Int,
    from: Long,
    through: Long,
    to: Long,
    isFinal: Boolean
)

/** The groups of left rows at the previous horizon, found again: nothing of them is kept. They have what the rows match up
  * to there, without rows that arrived after the watermark had reached it.
  *
  * @param end    of that horizon, microseconds
  * @param change compares the two
  * @param late   which right rows came too late for it
  * @param newMerge makes a merge that finds these rows and no others
  */
private[label] final class EarlierVersion(
    end: Long,
    change: GroupChange,
    late: LateRights,
    memory: RowMemory,
    newMerge: () => SortedMerge
) extends AutoCloseable {
  private val picked = new Candidates(memory)
  private lazy val apart = newMerge()
  // Probes of a key whose rows aren't all held, which `apart` has yet to go through.
  private var remaining = 0

  /** For another chunk. */
  def restart(): Unit = remaining = 0

  /** Compares the probe of a merge with its earlier version.
    *
    * @param left     the probe
    * @param chunk    the probes of the merge
    * @param sections of the merge
    * @param twin     of the probe, see [[Matches]]
    */
  def compare(
      left: UnsafeRow,
      now: SortedMerge,
      chunk: RowBuffer,
      sections: Seq[LiveSection],
      twin: Int
  ): GroupChange = {
    val time = chunk.time(now.probe)
    val of = now.matchesOf(twin)
    if (now.isWindowed) {
      if (remaining == 0) {
        val rest = now.restOfKey
        apart.start(chunk, rest, sections)
        remaining = rest.length
      }
      apart.next()
      remaining -= 1
      change.compare(left, time, of, apart.matchesOf(twin))
    } else if (late.isNone) {
      // The first of the same rows: to copy them would be too much work where a key has very many.
      val until = JoinWindow.saturatingAdd(time, end)
      val count = of.rows.countThrough(of.first, of.first + of.count, until)
      change.compare(left, time, of, of.copy(count = count, matched = count))
    } else {
      pick(time, now.candidates)
      change.compare(left, time, of, Matches(picked, 0, picked.size, picked.size, twin))
    }
    change
  }

  private def pick(time: Long, from: Candidates): Unit = {
    picked.clear()
    var i = from.first
    while (i < from.first + from.count) {
      val isIn = from.time(i) <= JoinWindow.saturatingAdd(time, end) &&
        late.hiddenThrough(from.seq(i), from.time(i)) < time
      if (isIn) picked.add(from.base(i), from.at(i))
      i += 1
    }
    picked.settle()
  }

  /** Gives its memory back. It can be restarted. */
  def release(): Unit = {
    restart()
    picked.release()
    apart.release()
  }

  override def close(): Unit = release()
}
