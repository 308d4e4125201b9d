package io.tailrace.sync

import java.io.DataOutputStream
import java.nio.ByteBuffer

import scala.collection.mutable

import io.tailrace.checkpoint.CheckedBytes
import io.tailrace.common.{Policy, Side}
import io.tailrace.driver.IdleClock

/** The source partitions of both sides, and the times that the next batch is judged by, given how far they
  * have been read.
  *
  * A right row is kept until the slowest left partition is a window past it. Left rows that wait don't count
  * as read: while the right side doesn't advance, their right rows would expire otherwise. So the time that
  * right rows expire by is never ahead of the release time. If the window is shorter than the sync delay, it
  * is behind by the difference, so that left rows may jump back by the sync delay too.
  */
private[sync] final class SyncPartitions(settings: SyncSettings) {
  // Both sides share a clock: a side that stops as a whole is idle while the other one continues.
  private val idleClock = new IdleClock(settings.stallAfterMs)

  val left: SidePartitions = newSide(Side.Left, Math.max(settings.window, settings.syncDelay))
  val right: SidePartitions = newSide(Side.Right, settings.syncDelay)

  private def newSide(side: Side, tolerance: Long) =
    new SidePartitions(tolerance, settings.onStallOf(side), idleClock, settings.liftsFiltered)

  private var decided = SyncTimes(SyncTimes.Unknown, SyncTimes.Unknown)

  def side(side: Side): SidePartitions = side.of(left, right)

  /** The times that the next batch is judged by. Neither ever goes back, even with other settings. */
  def times: SyncTimes = decided

  def restore(file: SyncFile): Unit = {
    decided = file.times
    Side.values.foreach { s =>
      val saved = file.side(s)
      side(s).restore(saved.low, saved.partitions)
    }
  }

  def file: SyncFile = SyncFile(decided, SideState(left.low, left.state), SideState(right.low, right.state))

  /** Applies the rows that a batch has read.
    *
    * @param askedMs when its input was asked for: see [[io.tailrace.driver.IdleClock]]
    */
  def advance(left: SideBatch, right: SideBatch, askedMs: Long): Unit = {
    this.left.take(left)
    this.right.take(right)
    val passed = idleClock.advance(askedMs, this.left.goesOn || this.right.goesOn)
    val leftFurthest = this.left.furthest
    this.left.judge(passed, left.hasUnread, this.right.furthest)
    this.right.judge(passed, right.hasUnread, leftFurthest)
    val release = SyncTimes.before(this.right.low, settings.syncDelay)
    val leftLow = SyncTimes.before(Math.min(this.left.low, release), SyncRules.slack(settings))
    decided = decided.max(SyncTimes(release, leftLow))
  }

  /** The next batch flushes left rows up to this time. */
  def flush(through: Long): Unit = decided = decided.max(SyncRules.flushedThrough(through, settings))

  /** The stalled partition that each side waits for: at most one of a side. */
  def stalled: Seq[(Side, HeldBy)] =
    Seq(Side.Right, Side.Left).flatMap(s => side(s).stalled.map(s -> _))

  /** The longest idle time that one batch counts. */
  def mostIdlePerBatchMs: Long = idleClock.mostPerStepMs

  /** Rows of a side before this time are late: the rows that would have joined them are decided. */
  def lateBefore(side: Side): Long =
    side.of(SyncTimes.before(decided.leftLow, settings.window), decided.release)

  /** Rows of a side before this time may have missed their match, though they aren't late. A right row joins
    * left rows that are older than it, and some of these may have been released: a batch sooner, it would
    * have found them. In a partition that counts, rows that come in order are never before this time.
    */
  def missedBefore(side: Side): Long =
    side.of(lateBefore(side), SyncRules.joinedThrough(decided.release, settings))
}

/** The part of a side that a micro-batch has read.
  *
  * @param read      of each partition that has given a row with a time
  * @param listed    the partitions that the source has; none: it can't say, and those seen so far count
  * @param hasUnread whether the source has records for later batches, if it can't say of which partitions
  * @param heldBack  partitions with records that aren't read, if none is listed as the source has nothing new
  */
private[sync] final case class SideBatch(
    read: Iterable[PartitionRead],
    listed: Option[Iterable[ListedPartition]],
    hasUnread: Boolean = false,
    heldBack: Set[String] = Set.empty
)

/** The progress of a synced join after a batch. Its bytes are format 3 (`jvm/docs/formats.md`), big-endian:
  *
  * {{{
  *   "TRSP"(4) format(4) place(4 + n) release(8) left low(8)
  *   left, then right: low(8) partitions(4), each: name(4 + n) latest(8) idle ms(8) flags(1) filtered ms(8)
  *   CRC-32C of all before(4)
  * }}}
  *
  * Format 2 has no filtered ms; format 1 has no place either. In format 1 a name may be that of several
  * partitions (it is their values joined by `-`), and idle ms is -1 if the batch had rows of the partition.
  *
  * @param times the times that the next batch is judged by
  */
private[tailrace] final case class SyncFile(times: SyncTimes, left: SideState, right: SideState) {
  def side(side: Side): SideState = side.of(left, right)
}

/** @param low all partitions that count have been read up to this time, in microseconds */
private[tailrace] final case class SideState(low: Long, partitions: Seq[PartitionState]) {

  /** The partitions without the placeholder that is used while none is known. */
  def known: Seq[PartitionState] = partitions.filter(_.name != SidePartitions.Nobody)
}

private[tailrace] object SyncFile {
  private val Layout =
    new CheckedBytes(0x54525350, "the progress of a synced join", oldest = 1, newest = 3, placedSince = 2)
  private val Excluded = 1
  private val Former = 2

  /** @param place join and batch that it is of */
  def encode(file: SyncFile, place: String): Array[Byte] = Layout.encode(place) { out =>
    out.writeLong(file.times.release)
    out.writeLong(file.times.leftLow)
    Seq(file.left, file.right).foreach(writeSide(out, _))
  }

  private def writeSide(out: DataOutputStream, side: SideState): Unit = {
    out.writeLong(side.low)
    out.writeInt(side.partitions.size)
    side.partitions.foreach { p =>
      CheckedBytes.writeText(out, p.name)
      out.writeLong(p.latest)
      out.writeLong(p.idleMs)
      out.writeByte((if (p.excluded) Excluded else 0) | (if (p.isFormer) Former else 0))
      out.writeLong(p.filteredMs)
    }
  }

  /** @param name  of the file, for errors
    * @param place join and batch that it must be of
    * @throws io.tailrace.common.TailraceStateException TAILRACE_STATE_FILE_CORRUPT or ..._FORMAT_UNSUPPORTED
    */
  def decode(bytes: Array[Byte], name: String, place: String): SyncFile =
    Layout.decode(bytes, name, place) { (format, in) =>
      SyncFile(SyncTimes(in.getLong(), in.getLong()), readSide(format, in), readSide(format, in))
    }

  private def readSide(format: Int, in: ByteBuffer): SideState =
    SideState(in.getLong(), Seq.fill(CheckedBytes.readCount(in))(readPartition(format, in)))

  private def readPartition(format: Int, in: ByteBuffer): PartitionState = {
    val name = CheckedBytes.readText(in)
    val (latest, idleMs, flags) = (in.getLong(), in.getLong(), in.get())
    PartitionState(
      name,
      latest,
      Math.max(0L, idleMs),
      (flags & Excluded) != 0,
      format == 1 || (flags & Former) != 0,
      if (format < 3) 0L else Math.max(0L, in.getLong())
    )
  }
}

/** The source partitions of one side: how far they have been read, and which of them the side waits for.
  *
  * {{{
  *   0 12:07   1 12:05   2 12:09   ->   12:05: the side waits for partition 1
  *   0 12:07   1 12:05   2 -       ->   as before: the side waits for partition 2, which has given no row yet
  * }}}
  *
  * A side of which no row has ever come, and whose source can't list its partitions, is waited for as if it
  * had one partition. The time of a side, in microseconds, never goes back, even if a partition comes late.
  *
  * @param tolerance     a partition may be behind the side by this time and still be in time
  * @param idleClock     the idle clock of both sides
  * @param liftsFiltered whether the join continues without a partition whose records are all filtered
  */
private[sync] final class SidePartitions(
    tolerance: Long,
    onStall: Policy,
    idleClock: IdleClock,
    liftsFiltered: Boolean
) {
  import SidePartitions._

  private val byName = mutable.LinkedHashMap.empty[String, PartitionProgress]
  private var reached = SyncTimes.Unknown

  // The furthest partition of the other side.
  private var others = SyncTimes.Unknown

  /** All partitions that count have been read up to this time. */
  def low: Long = reached

  def partitions: Iterable[PartitionProgress] = byName.values

  /** The progress of a partition. */
  def latest(name: String): Long = byName.get(name).fold(SyncTimes.Unknown)(_.latest)

  /** The progress of each partition that counts. */
  def counted: Map[String, Long] =
    byName.values.iterator.filterNot(_.excluded).map(p => p.name -> p.latest).toMap

  /** Begins with the state in the checkpoint. */
  def restore(low: Long, known: Iterable[PartitionState]): Unit = {
    reached = low
    known.foreach { state =>
      val partition = add(state.name)
      partition.latest = state.latest
      partition.mark = idleClock.nowMs - Math.max(0L, state.idleMs)
      partition.rowMark = partition.mark - Math.max(0L, state.filteredMs)
      partition.excluded = state.excluded
      partition.isFormer = state.isFormer
    }
  }

  def state: Seq[PartitionState] = byName.values.toSeq.map { p =>
    PartitionState(p.name, p.latest, idleClock.since(p.mark), p.excluded, p.isFormer, p.mark - p.rowMark)
  }

  /** Applies the rows that a batch has read. Call [[judge]] when both sides have. */
  def take(batch: SideBatch): Unit = {
    byName.values.foreach { p =>
      p.isReading = false
      p.isFiltered = false
    }
    batch.listed match {
      case Some(listed) => keep(listed)
      case None => byName.values.foreach(p => p.isHeldBack = batch.heldBack(p.name))
    }
    batch.read.foreach { r =>
      // A partition that the source doesn't list has left, even if the batch has read the rest of it.
      if (batch.listed.isEmpty) add(r.name): Unit
      byName.get(r.name).foreach { partition =>
        partition.latest = Math.max(partition.latest, r.latest)
        partition.isReading = true
        partition.isFiltered = false
        partition.isFormer = false
      }
    }
    if (byName.isEmpty) add(Nobody): Unit
    else if (byName.size > 1) byName -= Nobody: Unit
    // A partition with another name now isn't waited for by its old name.
    batch.read.flatMap(_.formerly).foreach { former =>
      if (byName.get(former).exists(_.isFormer)) byName -= former: Unit
    }
  }

  private def add(name: String): PartitionProgress =
    byName.getOrElseUpdate(name, new PartitionProgress(name, idleClock.nowMs))

  private def keep(listed: Iterable[ListedPartition]): Unit = {
    listed.foreach { l =>
      val partition = add(l.name)
      partition.unread = l.unread
      partition.isHeldBack = l.isHeldBack
      partition.isFiltered = l.isRead
    }
    if (byName.size > listed.size) {
      val names = listed.map(_.name).toSet + Nobody
      byName.filterInPlace((name, _) => names(name)): Unit
    }
  }

  /** True if any partition gives rows, or would if it were read. */
  def goesOn: Boolean = byName.values.exists(_.goesOn)

  /** The time of the furthest partition. */
  def furthest: Long = byName.values.iterator.map(_.latest).maxOption.getOrElse(SyncTimes.Unknown)

  /** Decides after a batch which partitions count, and how far the side is.
    *
    * @param passed    the time by which the idle clock has advanced
    * @param hasUnread whether the side's sources have records that aren't read
    * @param other     the time of the other side's furthest partition
    */
  def judge(passed: Long, hasUnread: Boolean, other: Long): Unit = {
    others = other
    val first = Math.max(furthest, others)
    byName.values.foreach { p =>
      p.mark = idleClock.mark(p.mark, passed, p.heard(hasUnread))
      p.rowMark = idleClock.mark(p.rowMark, passed, p.heardRow(hasUnread))
      if (p.excluded) {
        if (p.isReading && isInTime(p)) p.excluded = false
      } else if (onStall == Policy.Exclude && isSilentTooLong(p, first)) p.excluded = true
    }
    liftFiltered()
    follow()
  }

  /** Moves a partition up to the slowest of the others, if it is read to its end and only filtered
    * records have come for the time after which a partition stalls. Not sooner: a filtered record doesn't show
    * its producer's progress, and the next record may pass the filter.
    */
  private def liftFiltered(): Unit = if (liftsFiltered) {
    val (filtered, giving) =
      byName.values.filterNot(_.excluded).partition(p => p.givesNothing && idleClock.isTooLong(p.rowMark))
    if (filtered.nonEmpty && giving.nonEmpty) {
      val slowest = giving.iterator.map(_.latest).min
      filtered.foreach(p => p.latest = Math.max(p.latest, slowest))
    }
  }

  private def isInTime(partition: PartitionProgress): Boolean =
    reached == SyncTimes.Unknown || partition.latest >= SyncTimes.before(reached, tolerance)

  /** A side never waits for the furthest partition. */
  private def isSilentTooLong(partition: PartitionProgress, furthest: Long): Boolean =
    idleClock.isTooLong(partition.mark) && partition.latest < furthest && !partition.isHeldBack

  private def follow(): Unit = slowest match {
    case Some(p) => reached = Math.max(reached, p.latest)
    // No partition of the side counts any longer: the side follows the other one.
    case None => reached = Math.max(reached, others)
  }

  private def slowest: Option[PartitionProgress] = byName.values.filterNot(_.excluded).minByOption(_.latest)

  /** The partition that the side waits for; none while none counts. */
  def holder: Option[HeldBy] = slowest.map(describe)

  /** The same, if it has been idle for too long. */
  def stalled: Option[HeldBy] = {
    val first = Math.max(furthest, others)
    slowest.filter(p => isSilentTooLong(p, first) || isFilteredTooLong(p, first)).map(describe)
  }

  private def isFilteredTooLong(partition: PartitionProgress, furthest: Long): Boolean =
    !liftsFiltered && partition.givesNothing && idleClock.isTooLong(partition.rowMark) &&
      partition.latest < furthest

  private def describe(partition: PartitionProgress): HeldBy = {
    val first = furthest
    val ahead = if (partition.latest == first) Math.max(first, others) else first
    val lag = Option.when(partition.latest != SyncTimes.Unknown)(ahead - partition.latest)
    HeldBy(
      SidePartitions.shown(partition.name),
      partition.latest,
      lag,
      idleClock.since(if (partition.isFiltered) partition.rowMark else partition.mark),
      condition(partition, first)
    )
  }

  /** @param furthest of all partitions of the side */
  private def condition(p: PartitionProgress, furthest: Long): PartitionCondition =
    if (p.excluded) PartitionCondition.Excluded
    else if (p.isHeldBack) PartitionCondition.Paused
    else if (isSilentTooLong(p, Math.max(furthest, others))) PartitionCondition.Stalled
    else if (p.givesNothing && isBehind(p, furthest)) PartitionCondition.Filtered
    else if (p.latest == SyncTimes.Unknown) PartitionCondition.Waiting
    else if (!p.isReading && !p.isFiltered && p.unread.contains(0L)) PartitionCondition.Idle
    else if (isBehind(p, furthest)) PartitionCondition.Slow
    else PartitionCondition.Running

  private def isBehind(partition: PartitionProgress, furthest: Long): Boolean =
    partition.latest == SyncTimes.Unknown || partition.latest < SyncTimes.before(furthest, tolerance)

  /** The condition of a partition; none if it isn't known, or has left. */
  def condition(name: String): Option[PartitionCondition] = byName.get(name).map(condition(_, furthest))
}

private[sync] object SidePartitions {

  /** A partition's name for people. */
  def shown(name: String): String = if (name == Nobody) "(none yet)" else name

  /** The placeholder for a partition while none is known. None has this name: see [[PartitionNames]]. */
  val Nobody = "%none"
}
