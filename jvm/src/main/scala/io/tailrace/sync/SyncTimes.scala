package io.tailrace.sync

/** The times that a micro-batch is judged by, in microseconds, in the checkpoint when the batch before ends.
  *
  * @param release left rows before this time are released
  * @param leftLow right rows expire by it: how far the slowest left partition is, but at most `release`
  */
final case class SyncTimes(release: Long, leftLow: Long)

object SyncTimes {

  /** There is no such time yet. */
  val Unknown: Long = Long.MinValue

  /** The time that is `micros` earlier; unknown if the time is. */
  private[sync] def before(time: Long, micros: Long): Long =
    if (time < Unknown + micros) Unknown else time - micros
}

/** An input of the join. */
sealed abstract class SyncSide(val name: String) {
  private[sync] def of[T](left: => T, right: => T): T = if (this == SyncSide.Left) left else right
}

object SyncSide {
  case object Left extends SyncSide("left")
  case object Right extends SyncSide("right")

  val values: Seq[SyncSide] = Seq(Left, Right)
}

/** The rows that a state partition holds after a batch.
  *
  * @param left       left rows that wait
  * @param right      right rows that nobody has joined
  * @param oldestLeft event time of the oldest left row that waits, in microseconds
  * @param oldestRight event time of the oldest right row
  */
final case class SyncHeld(
    partition: Int,
    left: Long,
    right: Long,
    oldestLeft: Option[Long],
    oldestRight: Option[Long]
)

/** The rules for a row, given the times of a batch. All in microseconds. */
object SyncRules {

  /** Left rows up to this time (included) are released; those at the earliest possible time always are. */
  def releasedThrough(times: SyncTimes): Long =
    if (times.release == SyncTimes.Unknown) Long.MinValue else times.release - 1

  /** The time of the oldest right row that a left row at `time` joins. */
  def joinsFrom(time: Long, settings: SyncSettings): Long = SyncTimes.before(time, settings.window)

  /** The time of the youngest right row that it joins. When the left row is released, all right partitions
    * have been read up to this time. Whether a younger right row is there already depends on how fast each
    * partition is read, and where batches are cut.
    */
  def joinsThrough(time: Long, settings: SyncSettings): Long = {
    val through = time + reach(settings)
    if (through < time) Long.MaxValue else through
  }

  /** Right rows from this time on are out of reach of left rows before `release`. */
  def joinedThrough(release: Long, settings: SyncSettings): Long =
    if (release == SyncTimes.Unknown) release else joinsThrough(release, settings)

  /** The time of the oldest left row that a right row at `time` may be joined with. */
  def reachesFrom(time: Long, settings: SyncSettings): Long = SyncTimes.before(time, reach(settings))

  /** The time of the youngest one. */
  def reachesThrough(time: Long, settings: SyncSettings): Long = {
    val through = time + settings.window
    if (through < time) Long.MaxValue else through
  }

  private def reach(settings: SyncSettings): Long = Math.min(settings.window, settings.syncDelay)

  /** Right rows up to this time (included) leave the state when the released left rows have been joined. No
    * left row that waits can still join them, nor one to come that jumps back by the sync delay at most: all
    * are more than `window` later. Left rows wait from the release time on, so it bounds the expiry too:
    * while a right partition has stalled, the left side may be hours ahead. `leftLow` already lags by the
    * part of the sync delay beyond the window; the rest is subtracted here.
    */
  def rightExpiry(times: SyncTimes, settings: SyncSettings): Long = {
    val low = SyncTimes.before(Math.min(times.release, times.leftLow), reach(settings))
    val window = settings.window
    // A right row at R goes when R + window < low.
    if (low == SyncTimes.Unknown || low < Long.MinValue + window + 2) Long.MinValue else low - window - 1
  }
}

/** The right rows that a left row joins: those in a range of time around it.
  *
  * {{{
  *   left row 12:00:00, window 10 minutes, sync_delay 5 seconds   ->   right rows from 11:50:00 to 12:00:05
  * }}}
  */
private[sync] class JoinRange(settings: SyncSettings) {
  private var from = 0L
  private var through = 0L

  def around(time: Long): Unit = {
    from = SyncRules.joinsFrom(time, settings)
    through = SyncRules.joinsThrough(time, settings)
  }

  def earliest: Long = from
  def latest: Long = through

  def has(time: Long): Boolean = time >= from && time <= through

  def isBeyond(time: Long): Boolean = time > through
}
