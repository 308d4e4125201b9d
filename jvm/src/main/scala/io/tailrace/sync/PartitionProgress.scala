package io.tailrace.sync

import java.time.Instant
import java.time.temporal.ChronoUnit

import io.tailrace.driver.Heard

/** The progress of one source partition, and the time when it was last active.
  *
  * @param mark the idle clock when it was last active: see [[io.tailrace.driver.IdleClock]]
  */
private[sync] final class PartitionProgress(val name: String, var mark: Long) {

  /** The idle clock at its last row. Not after `mark`: filtered records count as activity too. */
  var rowMark: Long = mark

  /** The greatest event time that has been read of it. */
  var latest: Long = SyncTimes.Unknown

  /** True if its side doesn't wait for it. */
  var excluded = false

  /** True if its name comes from a file of format 1, and no row has confirmed the name yet. */
  var isFormer = false

  /** True if the last batch has read a row of it. */
  var isReading = false

  /** True if the last batch has read records of it but no row: all of them are filtered. */
  var isFiltered = false

  /** Records of it that the query hasn't read; none: unknown. */
  var unread: Option[Long] = None

  /** True if the query doesn't read it at the moment. */
  var isHeldBack = false

  /** True if it gives records, or would if it were read. */
  def goesOn: Boolean = isReading || isFiltered || isHeldBack || unread.exists(_ > 0)

  /** @param hasUnread whether the sources of its side have unread records of an unknown partition */
  def heard(hasUnread: Boolean): Heard =
    if (isReading || isFiltered) Heard.Yes
    else if (isHeldBack) Heard.Unknown
    else
      unread match {
        case Some(0) => Heard.No
        case Some(_) => Heard.Yes
        case None => if (hasUnread) Heard.Unknown else Heard.No
      }

  /** The same for rows. Whether an unread record gives a row is unknown. */
  def heardRow(hasUnread: Boolean): Heard =
    if (isReading) Heard.Yes
    else if (isFiltered) { if (isAtItsEnd) Heard.No else Heard.Unknown }
    else if (heard(hasUnread) == Heard.No) Heard.No
    else Heard.Unknown

  private def isAtItsEnd: Boolean = unread.contains(0L)

  /** True if the last batch has read it to its end without a row: how far it is, is unknown. */
  def givesNothing: Boolean = isFiltered && isAtItsEnd
}

/** The state of a partition in the checkpoint.
  *
  * @param latest     greatest event time, in microseconds
  * @param idleMs   for how long it has been idle
  * @param isFormer   whether the name is one of format 1 that no row has had since
  * @param filteredMs for how long it had given only filtered records, before it was idle
  */
private[tailrace] final case class PartitionState(
    name: String,
    latest: Long,
    idleMs: Long,
    excluded: Boolean,
    isFormer: Boolean = false,
    filteredMs: Long = 0
)

/** The part of a partition that a micro-batch, or one of its tasks, has read.
  *
  * @param latest   the greatest event time, in microseconds
  * @param rows     rows with an event time
  * @param jumps    rows that were more than the sync delay behind the greatest before them, or that came when
  *                 the rows that they join may have been decided
  * @param late     rows that came when the rows that they join had been decided
  * @param future   rows that were further ahead of the clock than the limit
  * @param formerly its name in files of format 1, if it was another one
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
  * @param unread     records that the query hasn't read; none: unknown
  * @param isHeldBack whether the query doesn't read it at the moment
  * @param isRead     whether the batch has read records of it
  */
private[sync] final case class ListedPartition(
    name: String,
    unread: Option[Long] = None,
    isHeldBack: Boolean = false,
    isRead: Boolean = false
)

/** Reads a partition in one task, a row at a time. Times are microseconds.
  *
  * @param before       the greatest time of the partition so far
  * @param syncDelay    a row that is further behind the greatest time before it has jumped
  * @param lateBefore   rows before this time are late
  * @param missedBefore rows before this time that aren't late may have missed their match
  * @param formerly     its name in files of format 1, if it was another one
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

  /** Sees a row that is further ahead of the clock than the limit.
    *
    * @param counted the time that it counts as; none: it doesn't count
    */
  def seeFuture(counted: Option[Long]): Unit = {
    future += 1
    counted.foreach(see)
  }

  /** The part that it has read so far. */
  def read: PartitionRead = PartitionRead(name, latest, rows, jumps, late, future, formerly)
}

/** The condition of a partition, as the query's progress shows it. */
private[tailrace] sealed abstract class PartitionCondition(val name: String)

private[tailrace] object PartitionCondition {

  /** It is read, and not far behind. */
  case object Running extends PartitionCondition("running")

  /** It is read, and further behind the furthest one than the tolerance. */
  case object Slow extends PartitionCondition("slow")

  /** Its side waits for it, and no row of it has come for too long. */
  case object Stalled extends PartitionCondition("stalled")

  /** All of its records are read. */
  case object Idle extends PartitionCondition("idle")

  /** All of its records are filtered before the join, so it is unknown how far it is. */
  case object Filtered extends PartitionCondition("filtered")

  /** The query doesn't read it, so that others catch up. */
  case object Paused extends PartitionCondition("paused")

  /** It is known, and no row of it has ever come. */
  case object Waiting extends PartitionCondition("waiting")

  /** It was idle for too long, and doesn't count until it is in time again. */
  case object Excluded extends PartitionCondition("excluded")
}

/** The partition that a side waits for.
  *
  * @param latest   microseconds
  * @param lag      behind the furthest partition of the side, in microseconds; none: no row of it was read
  * @param idleMs for how long no row of it has come
  */
private[tailrace] final case class HeldBy(
    partition: String,
    latest: Long,
    lag: Option[Long],
    idleMs: Long,
    condition: PartitionCondition
) {

  /** In ISO 8601 and UTC. */
  def latestTime: Option[String] =
    Option.when(latest != SyncTimes.Unknown)(Instant.EPOCH.plus(latest, ChronoUnit.MICROS).toString)
}

/** The source of a side after a batch.
  *
  * @param listed    its partitions; none: it can't list them
  * @param hasUnread whether it has records that the batch has left for later ones
  */
private[sync] final case class SideSource(listed: Option[Seq[ListedPartition]], hasUnread: Boolean)
