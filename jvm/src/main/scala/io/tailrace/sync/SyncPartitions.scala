package io.tailrace.sync

import java.io.DataOutputStream
import java.nio.ByteBuffer

import io.tailrace.checkpoint.CheckedBytes
import io.tailrace.driver.Silence

/** The source partitions of both sides, and the times that the next batch is judged by, given how far they
  * have been read.
  *
  * A right row is kept until the slowest left partition is a window past it. Left rows that wait don't count
  * as read: while the right side stands still, their right rows would expire otherwise. So the time that
  * right rows expire by is never ahead of the release time. If the window is shorter than the sync delay, it
  * is behind by the difference, so that left rows may jump back by the sync delay too.
  */
private[sync] final class SyncPartitions(settings: SyncSettings) {
  // Both sides share a clock: a side that stops as a whole is silent while the other one continues.
  private val silence = new Silence(settings.stallAfterMs)

  val left: SidePartitions = newSide(SyncSide.Left, Math.max(settings.window, settings.syncDelay))
  val right: SidePartitions = newSide(SyncSide.Right, settings.syncDelay)

  private def newSide(side: SyncSide, tolerance: Long) =
    new SidePartitions(tolerance, settings.onStallOf(side), silence, settings.liftsFiltered)

  private var decided = SyncTimes(SyncTimes.Unknown, SyncTimes.Unknown)

  def side(side: SyncSide): SidePartitions = side.of(left, right)

  /** The times that the next batch is judged by. Neither ever goes back, even with other settings. */
  def times: SyncTimes = decided

  def restore(file: SyncFile): Unit = {
    decided = file.times
    SyncSide.values.foreach { s =>
      val saved = file.side(s)
      side(s).restore(saved.low, saved.partitions)
    }
  }

  def file: SyncFile = SyncFile(decided, SideState(left.low, left.state), SideState(right.low, right.state))

  /** Takes in what a batch has read.
    *
    * @param askedMs when its input was asked for: see [[io.tailrace.driver.Silence]]
    */
  def advance(left: SideBatch, right: SideBatch, askedMs: Long): Unit = {
    this.left.take(left)
    this.right.take(right)
    val passed = silence.advance(askedMs, this.left.goesOn || this.right.goesOn)
    val leftFurthest = this.left.furthest
    this.left.judge(passed, left.hasUnread, this.right.furthest)
    this.right.judge(passed, right.hasUnread, leftFurthest)
    val release = SyncTimes.before(this.right.low, settings.syncDelay)
    val slack = Math.max(0L, settings.syncDelay - settings.window)
    val leftLow = SyncTimes.before(Math.min(this.left.low, release), slack)
    decided = SyncTimes(Math.max(decided.release, release), Math.max(decided.leftLow, leftLow))
  }

  /** The stalled partition that each side waits for: at most one of a side. */
  def stalled: Seq[(SyncSide, HeldBy)] =
    Seq(SyncSide.Right, SyncSide.Left).flatMap(s => side(s).stalled.map(s -> _))

  /** The most silence that one batch counts. */
  def mostSilencePerBatchMs: Long = silence.mostPerBatchMs

  /** Rows of a side before this time are late: the rows that would have joined them are decided. */
  def lateBefore(side: SyncSide): Long =
    side.of(SyncTimes.before(decided.leftLow, settings.window), decided.release)

  /** Rows of a side before this time may have missed their match, though they aren't late. A right row joins
    * left rows that are older than it, and some of these may have been released: a batch sooner, it would
    * have found them. In a partition that counts, rows that come in order are never before this time.
    */
  def missedBefore(side: SyncSide): Long =
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
  *   left, then right: low(8) partitions(4), each: name(4 + n) latest(8) silent ms(8) flags(1) filtered ms(8)
  *   CRC-32C of all before(4)
  * }}}
  *
  * Format 2 has no filtered ms; format 1 has no place either. In format 1 a name may be that of several
  * partitions (it is their values joined by `-`), and silence is -1 if the batch had rows of the partition.
  *
  * @param times the times that the next batch is judged by
  */
private[tailrace] final case class SyncFile(times: SyncTimes, left: SideState, right: SideState) {
  def side(side: SyncSide): SideState = side.of(left, right)
}

/** @param low all partitions that count have been read up to this time, in microseconds */
private[tailrace] final case class SideState(low: Long, partitions: Seq[PartitionState]) {

  /** The partitions without the one that stands for them while none is known. */
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
      out.writeLong(p.silentMs)
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
    val (latest, silentMs, flags) = (in.getLong(), in.getLong(), in.get())
    PartitionState(
      name,
      latest,
      Math.max(0L, silentMs),
      (flags & Excluded) != 0,
      format == 1 || (flags & Former) != 0,
      if (format < 3) 0L else Math.max(0L, in.getLong())
    )
  }
}
