package io.tailrace.sync

/** Which partitions aren't read while too many rows are held: those that only add to them. All times in microseconds.
  *
  * {{{
  *   too many right rows     right 0 12:07   1 12:05   2 12:09   ->   0 and 2 are held back, for 1 is waited for
  *   too many left rows      release time 12:04, left 0 12:06   1 12:03   ->   0 is held back: its rows would wait
  * }}}
  *
  * Nothing holds everything back: the slowest right partition is always read, or else nothing would ever be released.
  */
private[sync] object HoldBack {

  /** @param latest  how far each partition has been read
    * @param release left rows before it are released
    */
  def left(latest: Map[String, Long], release: Long): Set[String] =
    names(latest)(_ >= release)

  /** @param leftLow how far the slowest left partition has been read: right rows beyond it wait for it; none: it is held
    *                back itself, and waiting for it would be for ever
    */
  def right(latest: Map[String, Long], leftLow: Option[Long]): Set[String] =
    if (latest.isEmpty) Set.empty
    else {
      val slowest = latest.values.min
      val ahead = names(latest)(_ > slowest)
      leftLow.filter(low => slowest != SyncTimes.Unknown && slowest > low).fold(ahead)(_ => latest.keySet)
    }

  private def names(latest: Map[String, Long])(isHeld: Long => Boolean): Set[String] =
    latest.collect { case (name, time) if time != SyncTimes.Unknown && isHeld(time) => name }.toSet
}
