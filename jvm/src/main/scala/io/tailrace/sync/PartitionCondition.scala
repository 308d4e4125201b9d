package io.tailrace.sync

import java.time.Instant
import java.time.temporal.ChronoUnit

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
