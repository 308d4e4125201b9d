package io.tailrace.sync

import io.tailrace.driver.{HolderFacts, SyncSideFacts}

/** The partitions that hold back the rows of a synced join, by the progress of its partitions. */
private[tailrace] object SyncWaits {

  /** The sides after a batch, as the checkpoint has them, the right one first. It has no policies of stalls. */
  def sides(file: SyncFile): Seq[SyncSideFacts] = Seq(SyncSide.Right, SyncSide.Left).map { side =>
    val state = file.side(side)
    val (excluded, counted) = state.partitions.partition(_.excluded)
    val furthest = state.partitions.map(_.latest).maxOption.getOrElse(SyncTimes.Unknown)
    val holder = counted.minByOption(_.latest).map { p =>
      val behind = Option.when(p.latest != SyncTimes.Unknown)(furthest - p.latest)
      HolderFacts(SidePartitions.shown(p.name), known(p.latest), behind, p.silentMs, None)
    }
    SyncSideFacts(side.name, known(state.low), holder, excluded.map(_.name), None, None)
  }

  /** The sides of a join that runs. */
  def sides(settings: SyncSettings, partitions: SyncPartitions): Seq[SyncSideFacts] =
    Seq(SyncSide.Right, SyncSide.Left).map { side =>
      val now = partitions.side(side)
      val holder = now.holder.map { by =>
        HolderFacts(by.partition, known(by.latest), by.lag, by.silentMs, Some(by.condition.name))
      }
      SyncSideFacts(
        side.name,
        known(now.low),
        holder,
        now.partitions.filter(_.excluded).map(_.name).toSeq,
        Some(settings.onStallOf(side).name),
        Some(settings.stallAfterMs)
      )
    }

  /** Left rows before this time are released. */
  def released(times: SyncTimes): Option[Long] = known(times.release)

  /** The time up to which the right side must be read so that a left row is released. The checkpoint doesn't have
    * the delay of the join; it is the difference between two times that it has.
    */
  def needs(time: Long, file: SyncFile): Option[Long] =
    for (low <- known(file.right.low); release <- released(file.times)) yield low + (time + 1 - release)

  /** The same with the delay. */
  def needs(time: Long, settings: SyncSettings): Long = time + settings.syncDelay + 1

  private def known(time: Long): Option[Long] = Option.when(time != SyncTimes.Unknown)(time)
}
