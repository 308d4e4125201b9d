package io.tailrace.sync

import java.util.UUID

import org.apache.spark.internal.Logging
import org.apache.spark.sql.Row
import org.apache.spark.util.CollectionAccumulator

import io.tailrace.common.Policy
import io.tailrace.driver.{InputWatermarks, PartitionAccumulator, Silence}

/** The progress of one synced join in one run of a query, on the driver.
  *
  * {{{
  *   times(7) ── tasks of batch 7: read(7), held(7) ──> end(7): fold what they have read, write 7.progress ── commit log 7
  * }}}
  *
  * Spark may ask for the end of a batch several times and gets the same answer.
  *
  * @param retain batches that the query must be able to go back by
  * @param endsByItself whether the run reads what is there, and ends
  */
private[sync] final class SyncJoinRun(
    settings: SyncSettings,
    log: SyncLog,
    accumulators: Accumulators,
    retain: Int,
    endsByItself: Boolean = false
) extends SyncRun
    with Logging {
  private val partitions = new SyncPartitions(settings)
  private val inputs = new InputWatermarks

  private var isLoaded = false
  private var batch = -1L
  private var judged = partitions.times
  private var judgedBefore = partitions.times
  private var heldBack = Map.empty[SyncSide, Set[String]].withDefaultValue(Set.empty)
  private var reads = Map.empty[SyncSide, List[PartitionAccumulator[TaskRead]]].withDefaultValue(Nil)
  private var holds = List.empty[CollectionAccumulator[SyncHeld]]
  private var ended = -1L
  private var endedMs = 0L
  private var askedMs = 0L
  private var report = SyncReport(judged, 0, 0, 0, Nil, Nil)
  private var warned = Set.empty[(SyncSide, String, PartitionCondition)]

  /** Readies for a batch: what it begins with is read from the checkpoint, if it isn't known. */
  private def begin(next: Long): Unit = if (next != batch) {
    if (!isLoaded) {
      log.load(next).foreach(partitions.restore)
      log.times(next - 1).foreach(judgedBefore = _)
      isLoaded = true
    } else judgedBefore = judged
    batch = next
    askedMs = Silence.nowMs
    judged = partitions.times
    reads = reads.empty.withDefaultValue(Nil)
    holds = Nil
  }

  override def times(batch: Long): SyncTimes = synchronized {
    begin(batch)
    judged
  }

  override def timesBefore(batch: Long): SyncTimes = synchronized {
    begin(batch)
    judgedBefore
  }

  /** The partitions of a side that the next batch is not to read: more rows are held than the user wants. A start that has
    * run no batch yet doesn't know how many are held, and reads all. A run that ends by itself holds nothing back: it would
    * end with what isn't read when those that are waited for have no more.
    */
  def holdBack(side: SyncSide): Set[String] = synchronized {
    def isTooMany(held: Long) = !endsByItself && isLoaded && settings.maxPending.exists(_ < held)
    val names = side match {
      case SyncSide.Left if isTooMany(report.heldLeft) =>
        HoldBack.left(partitions.left.counted, partitions.times.release)
      case SyncSide.Right if isTooMany(report.heldRight) =>
        val leftLow = Option.when(!isTooMany(report.heldLeft))(partitions.left.low)
        HoldBack.right(partitions.right.counted, leftLow)
      case _ => Set.empty[String]
    }
    heldBack += side -> names
    names
  }

  override def needsBatch(nowMs: Long): Boolean = synchronized {
    // Who only waits is told once.
    val acts = SyncSide.values.exists(settings.onStallOf(_) != Policy.Pause)
    (acts || warned.isEmpty) && heldBack.values.exists(_.nonEmpty) &&
    nowMs - endedMs >= partitions.mostSilencePerBatchMs
  }

  override def next: SyncTimes = synchronized(partitions.times)

  override def held(batch: Long): CollectionAccumulator[SyncHeld] = synchronized {
    begin(batch)
    val accumulator = accumulators.register(new CollectionAccumulator[SyncHeld])
    holds ::= accumulator
    accumulator
  }

  /** What the tasks of a side begin a batch with. */
  def read(side: SyncSide, batch: Long, clockMs: Long): SideTasks = synchronized {
    begin(batch)
    val accumulator = accumulators.register(new PartitionAccumulator[TaskRead])
    reads += side -> (accumulator :: reads(side))
    SideTasks(
      side,
      partitions.side(side).partitions.map(p => p.name -> p.latest).toMap,
      settings.syncDelay,
      partitions.lateBefore(side),
      partitions.missedBefore(side),
      settings.believedThrough(clockMs),
      settings.onFuture,
      accumulator
    )
  }

  /** The tasks of a batch have ended. When this returns, what the next one is judged by is in the checkpoint.
    *
    * @throws io.tailrace.common.TailraceStateException TAILRACE_SYNC_STALLED
    */
  def end(finished: Long, sources: SyncSources): Unit =
    synchronized {
      begin(finished)
      if (ended != finished) {
        val read = SyncSide.values.map(side => side -> SyncReads.of(reads(side).reverse)).toMap
        val before = excluded
        def side(side: SyncSide): SideBatch = {
          val hasUnread = sources.hasUnread(side)
          SideBatch(
            read(side),
            sources
              .listed(side)
              .map(_.map { partition =>
                // All that it has may have been read before it was held back.
                val waits = heldBack(side)(partition.name) && !partition.unread.contains(0L)
                partition.copy(isHeldBack = waits)
              }),
            hasUnread,
            if (hasUnread) heldBack(side) else Set.empty
          )
        }
        partitions.advance(side(SyncSide.Left), side(SyncSide.Right), askedMs)
        judgeStalls()
        tellOfExcluded(before)
        log.write(finished, partitions.file, finished - retain)
        report = reportOf(read)
        ended = finished
        endedMs = Silence.nowMs
      }
    }

  private def judgeStalls(): Unit = {
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

  private def reportOf(read: Map[SyncSide, Seq[PartitionRead]]): SyncReport = {
    val held = SyncReads.held(holds.reverse)
    val late = for {
      side <- SyncSide.values
      part <- read(side) if part.late > 0
    } yield (side, part.name, part.late)
    val waitsFor = for {
      side <- Seq(SyncSide.Right, SyncSide.Left)
      by <- partitions.side(side).holder if by.condition != PartitionCondition.Running
    } yield side -> by
    SyncReport(
      partitions.times,
      held.map(_.left).sum,
      held.map(_.right).sum,
      read.values.flatten.map(_.jumps).sum,
      late,
      waitsFor,
      read.values.flatten.map(_.future).sum
    )
  }

  /** How far the watermarks of the query's inputs are, in milliseconds, if all have one. */
  def watermark(seen: Map[UUID, Option[Long]]): Option[Long] = synchronized {
    val all = inputs.after(seen)
    if (all.isEmpty || all.exists(_.isEmpty)) None else all.flatten.minOption
  }

  /** For the query's progress, after the end of a batch. */
  def metrics: Row = synchronized(report.row)
}

/** What the sources of a join have, when a batch has run. */
private[sync] trait SyncSources {

  /** The partitions that a side's source has; none: it can't say. */
  def listed(side: SyncSide): Option[Seq[ListedPartition]]

  /** Whether a side's sources had something that the batch has left for later ones. */
  def hasUnread(side: SyncSide): Boolean
}
