package io.tailrace.sync

import org.apache.spark.internal.Logging

import io.tailrace.common.Policy

/** Tells in the log which partitions have stalled or are excluded, once each, and ends the query where the user wants it.
  */
private[sync] final class SyncNotices(settings: SyncSettings, partitions: SyncPartitions) extends Logging {
  private var warned = Set.empty[(SyncSide, String, PartitionCondition)]

  /** Whether the log has a warning about a partition that the join still waits for. */
  def hasWarned: Boolean = warned.nonEmpty

  /** Tells what has changed in a batch.
    *
    * @param advance takes the batch into the partitions
    * @throws io.tailrace.common.TailraceStateException TAILRACE_SYNC_STALLED
    */
  def around(advance: => Unit): Unit = {
    val before = excluded
    advance
    tellOfStalls()
    tellOfExcluded(before)
  }

  private def tellOfStalls(): Unit = {
    val stalled = partitions.stalled
    stalled.foreach { case (side, by) =>
      if (settings.onStallOf(side) == Policy.Fail) {
        throw SyncErrors.stalled(settings.name, side.name, by.partition, by.latestTime, by.lag, by.silentMs)
      }
      if (!warned((side, by.partition, by.condition))) {
        logWarning(
          s"TAILRACE_SYNC_STALLED: no row of the ${side.name} partition ${by.partition} for ${by.silentMs} ms, " +
            s"which is ${by.condition.name}" + by.lag.fold("")(l =>
              s" and ${l / 1000} ms behind the furthest one"
            ) +
            s": the join '${settings.name}' waits for it" + why(by.condition)
        )
      }
    }
    val now = stalled.map { case (side, by) => (side, by.partition, by.condition) }.toSet
    (warned -- now).foreach { case (side, partition, _) =>
      logInfo(s"The join '${settings.name}' doesn't wait for the ${side.name} partition $partition any more")
    }
    warned = now
  }

  private def why(condition: PartitionCondition): String = condition match {
    case PartitionCondition.Filtered =>
      ". It has records, and what is before the join filters all of them: with stall_after the join goes on"
    case _ => ""
  }

  private def excluded: Set[(SyncSide, String)] =
    SyncSide.values.flatMap { side =>
      partitions.side(side).partitions.filter(_.excluded).map(p => side -> p.name)
    }.toSet

  private def tellOfExcluded(before: Set[(SyncSide, String)]): Unit = {
    val now = excluded
    (now -- before).foreach { case (side, partition) =>
      logWarning(
        s"TAILRACE_SYNC_EXCLUDED: no row of the ${side.name} partition $partition for ${settings.stallAfterMs} ms: the " +
          s"join '${settings.name}' goes on without it until it is back in time"
      )
    }
    (before -- now).foreach { case (side, partition) =>
      logInfo(s"The join '${settings.name}' waits for the ${side.name} partition $partition again")
    }
  }
}
