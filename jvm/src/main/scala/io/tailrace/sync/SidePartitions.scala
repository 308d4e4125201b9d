package io.tailrace.sync

import scala.collection.mutable

/** How far the source partitions of one side have been read, and which of them the side waits for.
  *
  * {{{
  *   0 12:07   1 12:05   2 12:09   ->   12:05: partition 1 is the one that holds it
  *   0 12:07   1 12:05   2 -       ->   it stays where it is: a partition that is known, and has given nothing, holds it too
  * }}}
  *
  * It never goes back, whoever comes late. Times are microseconds, the clock is the batch's, in milliseconds.
  *
  * Silence is counted from the first batch on that has had no row of the partition: it is the others' going on that makes it
  * silence, and neither the time in which the query was down nor that in which nobody gave anything.
  *
  * @param tolerance how far behind the side a partition still is in time
  */
private[sync] final class SidePartitions(tolerance: Long, onStall: OnStall, stallAfterMs: Long) {
  import SidePartitions._

  private val byName = mutable.LinkedHashMap.empty[String, SourcePartition]
  private var clock: Option[Long] = None
  private var reached = SyncTimes.Unknown

  /** All partitions that count have been read up to there. */
  def low: Long = reached

  def partitions: Iterable[SourcePartition] = byName.values

  /** How far a partition has been read. */
  def latest(name: String): Long = byName.get(name).fold(SyncTimes.Unknown)(_.latest)

  /** How far each partition that counts has been read. */
  def counted: Map[String, Long] =
    byName.values.iterator.filterNot(_.excluded).map(p => p.name -> p.latest).toMap

  /** What the checkpoint knows. */
  def restore(low: Long, known: Iterable[PartitionState]): Unit = {
    reached = low
    known.foreach { state =>
      val partition = add(state.name)
      partition.latest = state.latest
      partition.silentMs = state.silentMs
      partition.excluded = state.excluded
    }
  }

  def state: Seq[PartitionState] = byName.values.toSeq.map { p =>
    PartitionState(p.name, p.latest, p.silentMs, p.excluded)
  }

  /** Takes in a batch.
    *
    * @param read   what has been read in it, of each partition that has given a row with a time
    * @param listed the partitions that the source has; none: it can't say, and those count that have been seen
    */
  def advance(
      read: Iterable[PartitionRead],
      listed: Option[Iterable[ListedPartition]],
      clockMs: Long
  ): Unit = {
    listed.foreach(keep)
    byName.values.foreach(_.isReading = false)
    read.foreach { r =>
      // What the source doesn't list any more has left, whatever there was left of it.
      if (listed.isEmpty) add(r.name): Unit
      byName.get(r.name).foreach { partition =>
        partition.latest = Math.max(partition.latest, r.latest)
        partition.isReading = true
      }
    }
    val passed = clock.fold(0L)(before => Math.max(0L, clockMs - before))
    clock = Some(clockMs)
    byName.values.foreach(countSilence(_, passed))
    judge()
    follow()
  }

  private def add(name: String): SourcePartition = byName.getOrElseUpdate(name, new SourcePartition(name))

  private def keep(listed: Iterable[ListedPartition]): Unit = {
    listed.foreach { l =>
      val partition = add(l.name)
      partition.unread = l.unread
      partition.isHeldBack = l.isHeldBack
    }
    if (byName.size > listed.size) {
      val names = listed.map(_.name).toSet
      byName.filterInPlace((name, _) => names(name)): Unit
    }
  }

  private def countSilence(partition: SourcePartition, passed: Long): Unit =
    if (partition.isReading) partition.silentMs = NotSilent
    else if (partition.silentMs == NotSilent) partition.silentMs = 0
    // Who isn't read can't speak.
    else if (!partition.isHeldBack) partition.silentMs += passed

  private def judge(): Unit = {
    val first = furthest
    byName.values.foreach { p =>
      if (p.excluded) {
        if (p.isReading && isInTime(p)) p.excluded = false
      } else if (onStall == OnStall.Exclude && isSilentTooLong(p, first)) p.excluded = true
    }
  }

  private def isInTime(partition: SourcePartition): Boolean =
    reached == SyncTimes.Unknown || partition.latest >= SyncTimes.before(reached, tolerance)

  /** The one that is furthest is waited for by nobody. */
  private def isSilentTooLong(partition: SourcePartition, furthest: Long): Boolean =
    partition.silentMs >= stallAfterMs && partition.latest < furthest && !partition.isHeldBack

  private def furthest: Long = {
    var most = SyncTimes.Unknown
    byName.values.foreach(p => most = Math.max(most, p.latest))
    most
  }

  private def follow(): Unit = slowest.foreach(p => reached = Math.max(reached, p.latest))

  private def slowest: Option[SourcePartition] = {
    var found: SourcePartition = null
    byName.values.foreach { p =>
      if (!p.excluded && (found == null || p.latest < found.latest)) found = p
    }
    Option(found)
  }

  /** The partition that holds the side; none while none counts. */
  def holder: Option[HeldBy] = slowest.map(describe)

  /** The one that holds the side, if it has been silent for too long. */
  def stalled: Option[HeldBy] = {
    val first = furthest
    slowest.filter(isSilentTooLong(_, first)).map(describe)
  }

  private def describe(partition: SourcePartition): HeldBy = {
    val first = furthest
    val lag = if (partition.latest == SyncTimes.Unknown) None else Some(first - partition.latest)
    HeldBy(
      partition.name,
      partition.latest,
      lag,
      Math.max(0L, partition.silentMs),
      condition(partition, first)
    )
  }

  /** @param furthest of all partitions of the side */
  private def condition(p: SourcePartition, furthest: Long): PartitionCondition =
    if (p.excluded) PartitionCondition.Excluded
    else if (p.isHeldBack) PartitionCondition.Paused
    else if (p.latest == SyncTimes.Unknown) PartitionCondition.Waiting
    else if (!p.isReading && p.unread.contains(0L)) PartitionCondition.Idle
    else if (isSilentTooLong(p, furthest)) PartitionCondition.Stalled
    else if (p.latest < SyncTimes.before(furthest, tolerance)) PartitionCondition.Slow
    else PartitionCondition.Running

  /** None if the partition isn't known, or has left. */
  def condition(name: String): Option[PartitionCondition] = byName.get(name).map(condition(_, furthest))
}

private[sync] object SidePartitions {

  /** The last batch has had rows of it. */
  val NotSilent: Long = -1
}
