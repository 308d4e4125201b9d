package io.tailrace.sync

import io.tailrace.driver.Silence

/** The partitions of both sides, and what the rows of a batch are judged by when they have been read so far.
  *
  * A right row is kept until the slowest left partition is a window past it, and left rows that wait aren't past anything:
  * while the right side stands still, right rows whose left ones are held would go otherwise. So what right rows expire by is
  * never ahead of what left rows are released by. And where the window is shorter than the sync delay, it is behind by the
  * difference, so that left rows may jump back by the sync delay, too.
  */
private[sync] final class SyncPartitions(settings: SyncSettings) {
  // One clock for both: a side that stops as a whole is silent while the other one goes on.
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

  /** What the next batch is judged by. Neither time ever goes back, with other settings neither. */
  def times: SyncTimes = decided

  def restore(file: SyncFile): Unit = {
    decided = file.times
    SyncSide.values.foreach { s =>
      val saved = file.side(s)
      side(s).restore(saved.low, saved.partitions)
    }
  }

  def file: SyncFile = SyncFile(decided, SideState(left.low, left.state), SideState(right.low, right.state))

  /** Takes in a batch.
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

  /** The partitions that a side waits for, and that have stalled: one of a side at the most. */
  def stalled: Seq[(SyncSide, HeldBy)] =
    Seq(SyncSide.Right, SyncSide.Left).flatMap(s => side(s).stalled.map(s -> _))

  /** How much of silence one batch counts at the most. */
  def mostSilencePerBatchMs: Long = silence.mostPerBatchMs

  /** Rows of a side with a time before it are late: what would have joined them is decided. */
  def lateBefore(side: SyncSide): Long = side match {
    case SyncSide.Left => SyncTimes.before(decided.leftLow, settings.window)
    case SyncSide.Right => decided.release
  }

  /** Rows of a side with a time before it may have missed their match, though they aren't late. A right row joins left ones
    * that are older than it, and of these some may have been released: had it come a batch sooner, it would have found them.
    * Rows of a partition that counts aren't before it, in order.
    */
  def missedBefore(side: SyncSide): Long = side match {
    case SyncSide.Left => lateBefore(side)
    case SyncSide.Right => SyncRules.joinedThrough(decided.release, settings)
  }
}

/** What a batch has had of a side.
  *
  * @param read      of each partition that has given a row with a time
  * @param listed    the partitions that the source has; none: it can't say, and those count that have been seen
  * @param hasUnread whether there was something that the batch has left for later ones, of a source that can't say of whom
  * @param heldBack  where nothing is listed, for nothing of the source is new: partitions that have something and aren't read
  */
private[sync] final case class SideBatch(
    read: Iterable[PartitionRead],
    listed: Option[Iterable[ListedPartition]],
    hasUnread: Boolean = false,
    heldBack: Set[String] = Set.empty
)
