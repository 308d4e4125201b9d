package io.tailrace.sync

/** What a micro-batch is judged by: known, and in the checkpoint, when the batch before it has ended. In microseconds.
  *
  * @param release left rows before it are released
  * @param leftLow how far the slowest left partition has been read, but not ahead of `release`: by it right rows expire
  */
final case class SyncTimes(release: Long, leftLow: Long)

object SyncTimes {

  /** No such time yet. */
  val Unknown: Long = Long.MinValue

  /** So much before a time; unknown if that is. */
  private[sync] def before(time: Long, micros: Long): Long =
    if (time < Unknown + micros) Unknown else time - micros
}

/** One of the two inputs. */
sealed abstract class SyncSide(val name: String)

object SyncSide {
  case object Left extends SyncSide("left")
  case object Right extends SyncSide("right")

  val values: Seq[SyncSide] = Seq(Left, Right)
}

/** What a state partition holds after a batch.
  *
  * @param left       left rows that wait
  * @param right      right rows that nobody has joined
  * @param oldestLeft the event time of the oldest left row that waits, in microseconds
  * @param oldestRight of the oldest right row
  */
final case class SyncHeld(
    partition: Int,
    left: Long,
    right: Long,
    oldestLeft: Option[Long],
    oldestRight: Option[Long]
)

/** What the times of a batch mean for its rows. All in microseconds. */
object SyncRules {

  /** Left rows up to this time (included) are released. Those at the least time are at once: nothing is before them. */
  def releasedThrough(times: SyncTimes): Long =
    if (times.release == SyncTimes.Unknown) Long.MinValue else times.release - 1

  /** The oldest right row that a left row at `time` joins. */
  def joinsFrom(time: Long, settings: SyncSettings): Long = SyncTimes.before(time, settings.window)

  /** The youngest right row that it joins. When it is released all right partitions have been read so far, and no further:
    * whether a younger one is there already would depend on how fast each partition is read, and where batches are cut.
    */
  def joinsThrough(time: Long, settings: SyncSettings): Long = {
    val through = time + reach(settings)
    if (through < time) Long.MaxValue else through
  }

  /** Right rows from this time on are out of reach of left rows before `release`. */
  def joinedThrough(release: Long, settings: SyncSettings): Long =
    if (release == SyncTimes.Unknown) release else joinsThrough(release, settings)

  private def reach(settings: SyncSettings): Long = Math.min(settings.window, settings.syncDelay)

  /** Right rows up to this time (included) leave the state, when those that are released have found theirs: no left row
    * that waits is more than `window` after them, nor one that is to come if it jumps back by no more than the sync delay.
    * Left rows wait from the release time on, so that counts too: while a right partition has stalled, the left side may be
    * hours ahead. `leftLow` is behind by the part of the sync delay that is beyond the window; the rest is taken here.
    */
  def rightExpiry(times: SyncTimes, settings: SyncSettings): Long = {
    val low = SyncTimes.before(Math.min(times.release, times.leftLow), reach(settings))
    val window = settings.window
    // A right row at R goes when R + window < low.
    if (low == SyncTimes.Unknown || low < Long.MinValue + window + 2) Long.MinValue else low - window - 1
  }
}

/** Which right rows a left row joins: those in a range of time around it.
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

  def has(time: Long): Boolean = time >= from && time <= through

  def isBeyond(time: Long): Boolean = time > through
}
