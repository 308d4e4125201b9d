package io.tailrace.sync

/** The partitions of both sides, and what the rows of a batch are judged by when they have been read so far.
  *
  * A right row is kept until the slowest left partition is a window past it, and left rows that wait aren't past anything:
  * while the right side stands still, right rows whose left ones are held would go otherwise. So what right rows expire by is
  * never ahead of what left rows are released by. And where the window is shorter than the sync delay, it is behind by the
  * difference, so that left rows may jump back by the sync delay, too.
  */
private[sync] final class SyncPartitions(settings: SyncSettings) {
  val left = new SidePartitions(
    Math.max(settings.window, settings.syncDelay),
    settings.onStall,
    settings.stallAfterMs
  )
  val right = new SidePartitions(settings.syncDelay, settings.onStall, settings.stallAfterMs)

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

  /** Takes in a batch. */
  def advance(left: SideBatch, right: SideBatch, clockMs: Long): Unit = {
    this.left.advance(left.read, left.listed, clockMs)
    this.right.advance(right.read, right.listed, clockMs)
    val release = SyncTimes.before(this.right.low, settings.syncDelay)
    val slack = Math.max(0L, settings.syncDelay - settings.window)
    val leftLow = SyncTimes.before(Math.min(this.left.low, release), slack)
    decided = SyncTimes(Math.max(decided.release, release), Math.max(decided.leftLow, leftLow))
  }

  /** The partition that both sides wait for, and that has stalled, if one has. */
  def stalled: Option[(SyncSide, HeldBy)] =
    right.stalled.map(SyncSide.Right -> _).orElse(left.stalled.map(SyncSide.Left -> _))

  /** Rows of a side with a time before it are late: what would have joined them is decided. */
  def lateBefore(side: SyncSide): Long = side match {
    case SyncSide.Left => SyncTimes.before(decided.leftLow, settings.window)
    case SyncSide.Right => decided.release
  }
}

/** What a batch has had of a side. */
private[sync] final case class SideBatch(
    read: Iterable[PartitionRead],
    listed: Option[Iterable[ListedPartition]]
)
