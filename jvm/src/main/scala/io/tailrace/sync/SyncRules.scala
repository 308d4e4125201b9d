package io.tailrace.sync

/** What the times of a batch mean for its rows. All in microseconds. */
object SyncRules {

  /** Left rows up to this time (included) are released. Those at the least time are at once: nothing is before them. */
  def releasedThrough(times: SyncTimes): Long =
    if (times.release == SyncTimes.Unknown) Long.MinValue else times.release - 1

  /** Right rows up to this time (included) leave the state, when those that are released have found theirs: no left row
    * that waits is `window` or more behind, nor one that is to come if its side has no jumps beyond it. Left rows wait
    * from the release time on, so that counts too: while a right partition has stalled, the left side may be hours ahead.
    */
  def rightExpiry(times: SyncTimes, window: Long): Long = {
    val low = Math.min(times.release, times.leftLow)
    // A right row at R goes when R + window < low.
    if (low == SyncTimes.Unknown || low < Long.MinValue + window + 2) Long.MinValue else low - window - 1
  }
}
