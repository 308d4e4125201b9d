package io.tailrace.sync

/** What one batch, or one of its tasks, reads of a partition, a row at a time. Times are microseconds.
  *
  * @param before     the greatest time of the partition before
  * @param syncDelay  a row that is further behind the greatest time before it has jumped
  * @param lateBefore rows before that are late
  * @param missedBefore rows before that, which aren't late, may have come after the row that they match
  * @param formerly   its name in files of format 1, if that was another one
  */
private[sync] final class PartitionReading(
    val name: String,
    before: Long,
    syncDelay: Long,
    lateBefore: Long,
    missedBefore: Long,
    formerly: Option[String] = None
) {
  private var latest = before
  private var jumpsBefore = SyncTimes.before(before, syncDelay)
  private var rows = 0L
  private var jumps = 0L
  private var late = 0L
  private var future = 0L

  def see(time: Long): Unit = {
    rows += 1
    if (time > latest) {
      latest = time
      jumpsBefore = SyncTimes.before(time, syncDelay)
    }
    if (time < lateBefore) {
      late += 1
      if (time < jumpsBefore) jumps += 1
    } else if (time < missedBefore || time < jumpsBefore) jumps += 1
  }

  /** A row that is further ahead of the clock than is believed.
    *
    * @param counted as if it were at that time; none: it doesn't count
    */
  def seeFuture(counted: Option[Long]): Unit = {
    future += 1
    counted.foreach(see)
  }

  /** So far. */
  def read: PartitionRead = PartitionRead(name, latest, rows, jumps, late, future, formerly)
}
