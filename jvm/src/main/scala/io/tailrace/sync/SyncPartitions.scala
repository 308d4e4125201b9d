package io.tailrace.sync

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
  // Both sides share a clock: a side that stops as a whole is silent while the other one goes on.
  private val silence = new Silence(settings.stallAfterMs)

  val left = new SidePartitions(
    Math.max(settings.window, settings.syncDelay),
    settings.onStallOf(SyncSide.Left),
    silence,
    settings.liftsFiltered
  )
  val right = new SidePartitions(
    settings.syncDelay,
    settings.onStallOf(SyncSide.Right),
    silence,
    settings.liftsFiltered
  )

  private var decided = SyncTimes(SyncTimes.Unknown, SyncTimes.Unknown)

  def side(side: SyncSide): SidePartitions = side match {
    case SyncSide.Left => left
    case SyncSide.Right => right
  }

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
    val (leftFurthest, rightFurthest) = (this.left.furthest, this.right.furthest)
    this.left.judge(passed, left.hasUnread, rightFurthest)
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
  def lateBefore(side: SyncSide): Long = side match {
    case SyncSide.Left => SyncTimes.before(decided.leftLow, settings.window)
    case SyncSide.Right => decided.release
  }

  /** Rows of a side before this time may have missed their match, though they aren't late. A right row joins
    * left rows that are older than it, and some of these may have been released: a batch sooner, it would
    * have found them. In a partition that counts, rows that come in order are never before this time.
    */
  def missedBefore(side: SyncSide): Long = side match {
    case SyncSide.Left => lateBefore(side)
    case SyncSide.Right => SyncRules.joinedThrough(decided.release, settings)
  }
}

/** The part of a side that a micro-batch has read.
  *
  * @param read      of each partition that has given a row with a time
  * @param listed    the partitions that the source has; none: the source can't say, and those count that have
  *                  been seen
  * @param hasUnread whether the source has records for later batches, if it can't say of which partitions
  * @param heldBack  partitions that have records and aren't read, if nothing is listed because the source has
  *                  nothing new
  */
private[sync] final case class SideBatch(
    read: Iterable[PartitionRead],
    listed: Option[Iterable[ListedPartition]],
    hasUnread: Boolean = false,
    heldBack: Set[String] = Set.empty
)
