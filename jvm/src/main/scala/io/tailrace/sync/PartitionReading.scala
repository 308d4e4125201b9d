package io.tailrace.sync

/** What one batch, or one of its tasks, reads of a partition, a row at a time. Times are microseconds.
  *
  * @param before     the greatest time of the partition before
  * @param syncDelay  a row that is further behind the greatest time before it has jumped
  * @param lateBefore rows before that are late
  */
private[sync] final class PartitionReading(
    val name: String,
    before: Long,
    syncDelay: Long,
    lateBefore: Long
) {
  private var latest = before
  private var jumpsBefore = SyncTimes.before(before, syncDelay)
  private var rows = 0L
  private var jumps = 0L
  private var late = 0L

  def see(time: Long): Unit = {
    rows += 1
    if (time > latest) {
      latest = time
      jumpsBefore = SyncTimes.before(time, syncDelay)
    } else if (time < jumpsBefore) jumps += 1
    if (time < lateBefore) late += 1
  }

  /** So far. */
  def read: PartitionRead = PartitionRead(name, latest, rows, jumps, late)
}
