package io.tailrace.sync

import java.time.Instant
import java.time.temporal.ChronoUnit

import io.tailrace.driver.Heard

/** One source partition.
  *
  * @param mark where the clock of silence was when it was last heard: see [[io.tailrace.driver.Silence]]
  */
private[sync] final class PartitionProgress(val name: String, var mark: Long) {

  /** The same of the last row of it. Not after `mark`: records that are filtered are heard, and no rows. */
  var rowMark: Long = mark

  /** The greatest event time that has been read of it. */
  var latest: Long = SyncTimes.Unknown

  /** Whether nobody waits for it. */
  var excluded = false

  /** Whether its name is that of a file of format 1, and no row has said yet that it is its name now. */
  var isFormer = false

  /** Whether the last batch has had a row of it. */
  var isReading = false

  /** Whether the last batch has read records of it that came to no row: all of them are filtered. */
  var isFiltered = false

  /** Records that the source has of it, and the query hasn't read; none: nobody knows. */
  var unread: Option[Long] = None

  /** Whether the query doesn't read it just now. */
  var isHeldBack = false

  /** Whether it gives something, or would if it were read. */
  def goesOn: Boolean = isReading || isFiltered || isHeldBack || unread.exists(_ > 0)

  /** @param hasUnread whether the sources of its side have something that isn't read, for whom nobody can say */
  def heard(hasUnread: Boolean): Heard =
    if (isReading || isFiltered) Heard.Yes
    else if (isHeldBack) Heard.Unknown
    else
      unread match {
        case Some(0) => Heard.No
        case Some(_) => Heard.Yes
        case None => if (hasUnread) Heard.Unknown else Heard.No
      }

  /** Whether there was a row. Of what isn't read nobody knows whether it is one. */
  def heardRow(hasUnread: Boolean): Heard =
    if (isReading) Heard.Yes
    else if (isFiltered) { if (isAtItsEnd) Heard.No else Heard.Unknown }
    else if (heard(hasUnread) == Heard.No) Heard.No
    else Heard.Unknown

  private def isAtItsEnd: Boolean = unread.contains(0L)

  /** Whether the last batch has had all of it, and no row: nobody knows how far it is. */
  def givesNothing: Boolean = isFiltered && isAtItsEnd
}

/** What is kept of a partition in the checkpoint.
  *
  * @param latest   microseconds
  * @param silentMs for how long it has been silent
  * @param isFormer whether the name is one of format 1 that no row has had since
  * @param filteredMs for how long it had given nothing but records that were filtered, before it was silent
  */
private[sync] final case class PartitionState(
    name: String,
    latest: Long,
    silentMs: Long,
    excluded: Boolean,
    isFormer: Boolean = false,
    filteredMs: Long = 0
)

/** What a batch has read of a partition.
  *
  * @param latest   the greatest event time, in microseconds
  * @param rows     with an event time
  * @param jumps    those that were more than the sync delay behind the greatest before them, or that came when what would
  *                 have joined them may have been decided
  * @param late     those that came after what would have joined them had been decided
  * @param future   those that were further ahead of the clock than is believed
  * @param formerly its name in files of format 1, if that was another one
  */
private[sync] final case class PartitionRead(
    name: String,
    latest: Long,
    rows: Long,
    jumps: Long,
    late: Long,
    future: Long = 0,
    formerly: Option[String] = None
)

/** A partition that a source has.
  *
  * @param unread     records that the query hasn't read; none: nobody knows
  * @param isHeldBack whether the query doesn't read it just now
  * @param isRead     whether the batch has read records of it
  */
private[sync] final case class ListedPartition(
    name: String,
    unread: Option[Long] = None,
    isHeldBack: Boolean = false,
    isRead: Boolean = false
)

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

/** What a partition is doing. */
private[sync] sealed abstract class PartitionCondition(val name: String)

private[sync] object PartitionCondition {

  /** It is read, and not far behind. */
  case object Running extends PartitionCondition("running")

  /** It is read, and further behind the furthest one than rows may be. */
  case object Slow extends PartitionCondition("slow")

  /** Others wait for it, and no row of it has come for too long. */
  case object Stalled extends PartitionCondition("stalled")

  /** All that it has is read. */
  case object Idle extends PartitionCondition("idle")

  /** All its records are filtered before the join, so nobody knows how far it is. */
  case object Filtered extends PartitionCondition("filtered")

  /** The query doesn't read it, so that others can catch up. */
  case object Paused extends PartitionCondition("paused")

  /** It is known, and no row of it has ever come. */
  case object Waiting extends PartitionCondition("waiting")

  /** It was silent for too long, and doesn't count until it is back. */
  case object Excluded extends PartitionCondition("excluded")
}

/** The partition that a side waits for.
  *
  * @param latest   microseconds
  * @param lag      behind the furthest partition of the side, in microseconds; none: nothing has been read of it
  * @param silentMs for how long no row of it has come
  */
private[sync] final case class HeldBy(
    partition: String,
    latest: Long,
    lag: Option[Long],
    silentMs: Long,
    condition: PartitionCondition
) {

  /** ISO 8601, in UTC. */
  def latestTime: Option[String] =
    Option.when(latest != SyncTimes.Unknown)(Instant.EPOCH.plus(latest, ChronoUnit.MICROS).toString)
}
