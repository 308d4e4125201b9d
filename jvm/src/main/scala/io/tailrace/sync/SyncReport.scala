package io.tailrace.sync

import java.sql.Timestamp

import org.apache.spark.SparkContext
import org.apache.spark.internal.Logging
import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.expressions.GenericRowWithSchema
import org.apache.spark.sql.catalyst.util.DateTimeUtils
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.types._

import io.tailrace.common.{Policy, ProgressName, Side}
import io.tailrace.explain.{HolderFacts, SyncSideFacts, WaitText}
import io.tailrace.join.JoinMetrics

/** The numbers of a batch, for the query's progress.
  *
  * @param times     the times that the next batch is judged by
  * @param bufferedLeft  left rows that wait; `bufferedRight` right rows
  * @param jumps     rows that were further back than the sync delay
  * @param late      rows that came when the rows that they join had been decided, by side and partition
  * @param heldBackBy  the partition that a side waits for, if that isn't just running
  * @param future    rows that were further ahead of the clock than the limit
  */
private[sync] final case class SyncReport(
    times: SyncTimes,
    bufferedLeft: Long,
    bufferedRight: Long,
    jumps: Long,
    late: Seq[(Side, String, Long)],
    heldBackBy: Seq[(Side, HeldBy)],
    future: Long = 0
) {
  import SyncReport._

  def row: Row = new GenericRowWithSchema(
    Array(
      timestamp(times.release),
      timestamp(times.leftLow),
      bufferedLeft,
      bufferedRight,
      jumps,
      late.map { case (side, partition, rows) =>
        new GenericRowWithSchema(Array(side.name, partition, rows), LateSchema)
      },
      heldBackBy.map { case (side, by) =>
        new GenericRowWithSchema(
          Array(
            side.name,
            by.partition,
            timestamp(by.latest),
            by.lag.map(micros => Long.box(micros / 1000)).orNull,
            by.idleMs,
            by.condition.name
          ),
          HeldBySchema
        )
      },
      future
    ),
    Schema
  )
}

private[tailrace] object SyncReport {

  /** @param read of each side, by partition
    * @param held by state partition
    */
  private[sync] def of(
      partitions: SyncPartitions,
      read: Map[Side, Seq[PartitionRead]],
      held: Seq[SyncHeld]
  ): SyncReport = {
    val late = for {
      side <- Side.values
      part <- read(side) if part.late > 0
    } yield (side, part.name, part.late)
    val heldBackBy = for {
      side <- Seq(Side.Right, Side.Left)
      by <- partitions.side(side).holder if by.condition != PartitionCondition.Running
    } yield side -> by
    SyncReport(
      partitions.times,
      held.map(_.left).sum,
      held.map(_.right).sum,
      read.values.flatten.map(_.jumps).sum,
      late,
      heldBackBy,
      read.values.flatten.map(_.future).sum
    )
  }

  /** The name in `observedMetrics`. */
  def name(settings: SyncSettings): String = ProgressName("syncJoin", settings.name, SyncOptions.Name)

  private def timestamp(micros: Long): Timestamp =
    if (micros == SyncTimes.Unknown) null else DateTimeUtils.toJavaTimestamp(micros)

  private val LateSchema =
    new StructType().add("side", StringType).add("partition", StringType).add("rows", LongType)
  private val HeldBySchema = new StructType()
    .add("side", StringType)
    .add("partition", StringType)
    .add("latest", TimestampType)
    .add("lagMs", LongType)
    .add("idleMs", LongType)
    .add("condition", StringType)
  val Schema: StructType = new StructType()
    .add("syncTime", TimestampType)
    .add("leftLow", TimestampType)
    .add("bufferedLeft", LongType)
    .add("bufferedRight", LongType)
    .add("possiblyMissed", LongType)
    .add("late", ArrayType(LateSchema))
    .add("heldBackBy", ArrayType(HeldBySchema))
    .add("futureRows", LongType)
}

/** The synced join's own metrics, by their names in the query's progress and in Spark's UI. Each left row
  * that isn't ahead of the clock is matched, unmatched, a duplicate or held; each such right row is matched,
  * unmatched, a duplicate, held or without a key.
  */
object SyncMetrics {
  val BufferedLeft = "bufferedLeft"
  val BufferedRight = "bufferedRight"
  val Matched = "matched"
  val UnmatchedLeft = "unmatchedLeft"
  val UnmatchedRight = "unmatchedRight"
  val TooFar = "tooFar"
  val DuplicateLeft = "duplicateLeft"
  val DuplicateRight = "duplicateRight"
  val LateLeft = "lateLeftRows"
  val FutureLeft = "futureLeftRows"
  val FutureRight = "futureRightRows"
  val FlushedByIdleTimeout = "flushedByIdleTimeout"
  val CarriedRows = "carriedRows"
  val IndexBytes = "indexBytes"
  val IndexesRead = "indexesRead"

  private val counts = Seq(
    BufferedLeft -> "buffered left rows",
    BufferedRight -> "buffered right rows",
    Matched -> "left rows that were emitted with their right row",
    UnmatchedLeft -> "left rows that were emitted without one",
    UnmatchedRight -> "right rows that no left row joined",
    TooFar -> "left rows that were emitted without one, though their key had one, too far away in time",
    DuplicateLeft -> "further left rows of an id",
    DuplicateRight -> "further right rows of an id",
    LateLeft -> "left rows that came when their time had been released",
    FutureLeft -> "left rows ahead of the clock emitted unmatched",
    FutureRight -> "right rows ahead of the clock emitted unmatched",
    FlushedByIdleTimeout -> "left rows flushed by idle_timeout, before the sync time",
    CarriedRows -> "rows of the state that were written again",
    IndexesRead -> "indexes of right rows that were made from the state's files"
  )
  private val sizes = Seq(
    JoinMetrics.JoinedStoreBytes -> "bytes of marks of rows that have left one by one",
    IndexBytes -> "memory of what is known of rows in the state, kept between batches"
  )

  val names: Seq[String] = JoinMetrics.names ++ (counts ++ sizes).map(_._1)

  def create(context: SparkContext): Map[String, SQLMetric] = JoinMetrics.create(context, counts, sizes)
}

/** Logs once which partitions have stalled or are excluded, and ends the query if the user wants that. */
private[sync] final class SyncNotices(settings: SyncSettings, partitions: SyncPartitions) extends Logging {
  private var warned = Set.empty[(Side, String, PartitionCondition)]

  /** True if the log has a warning about a partition that the join still waits for. */
  def hasWarned: Boolean = warned.nonEmpty

  /** Tells what a batch has changed.
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
        throw SyncErrors.stalled(settings.name, side, by)
      }
      if (!warned((side, by.partition, by.condition))) {
        val isFiltered = by.condition == PartitionCondition.Filtered
        logWarning(WaitText.partitionStalled(settings.name, side.name, SyncWaits.holder(by), isFiltered))
      }
    }
    val now = stalled.map { case (side, by) => (side, by.partition, by.condition) }.toSet
    (warned -- now).foreach { case (side, partition, _) =>
      logInfo(s"The join '${settings.name}' doesn't wait for the ${side.name} partition $partition any more")
    }
    warned = now
  }

  private def excluded: Set[(Side, String)] =
    Side.values.flatMap { side =>
      partitions.side(side).partitions.filter(_.excluded).map(p => side -> p.name)
    }.toSet

  private def tellOfExcluded(before: Set[(Side, String)]): Unit = {
    val now = excluded
    (now -- before).foreach { case (side, partition) =>
      logWarning(WaitText.partitionExcluded(settings.name, side.name, partition, settings.stallAfterMs))
    }
    (before -- now).foreach { case (side, partition) =>
      logInfo(s"The join '${settings.name}' waits for the ${side.name} partition $partition again")
    }
  }
}

private[sync] object SyncNotices extends Logging {

  /** Tells the user at the start of a query that nothing bounds what is held. */
  def unlimited(join: String, side: Side, source: String): Unit = logWarning(
    s"TAILRACE_SYNC_UNLIMITED: the join '$join' can't hold back the source of its ${side.name} side, $source: " +
      "while it waits for a partition, all rows that the source gives are held on disk. Limit the source by " +
      "its own options, or say by max_buffered=None that it is meant so"
  )
}

/** The partitions that hold back the rows of a synced join, by the progress of its partitions. */
private[tailrace] object SyncWaits {

  /** The sides after a batch, as the checkpoint has them, the right one first. It has no policies of stalls. */
  def sides(file: SyncFile): Seq[SyncSideFacts] = Seq(Side.Right, Side.Left).map { side =>
    val state = file.side(side)
    val (excluded, counted) = state.partitions.partition(_.excluded)
    val furthest = state.partitions.map(_.latest).maxOption.getOrElse(SyncTimes.Unknown)
    val holder = counted.minByOption(_.latest).map { p =>
      val behind = Option.when(p.latest != SyncTimes.Unknown)(furthest - p.latest)
      HolderFacts(SidePartitions.shown(p.name), known(p.latest), behind, p.idleMs, None)
    }
    SyncSideFacts(side, known(state.low), holder, excluded.map(_.name), None, None)
  }

  /** The sides of a join that runs. */
  def sides(settings: SyncSettings, partitions: SyncPartitions): Seq[SyncSideFacts] =
    Seq(Side.Right, Side.Left).map { side =>
      val now = partitions.side(side)
      val holder = now.holder.map(this.holder)
      SyncSideFacts(
        side,
        known(now.low),
        holder,
        now.partitions.filter(_.excluded).map(_.name).toSeq,
        Some(settings.onStallOf(side).name),
        Some(settings.stallAfterMs)
      )
    }

  def holder(by: HeldBy): HolderFacts =
    HolderFacts(by.partition, known(by.latest), by.lag, by.idleMs, Some(by.condition.name))

  /** Left rows before this time are released. */
  def released(times: SyncTimes): Option[Long] = known(times.release)

  /** The time up to which the right side must be read so that a left row is released. The checkpoint doesn't have
    * the delay of the join; it is the difference between two times that it has.
    */
  def needs(time: Long, file: SyncFile): Option[Long] =
    for {
      low <- known(file.right.low)
      // An idle query releases rows that the right side hasn't passed.
      release <- released(file.times) if release <= low
    } yield low + (time + 1 - release)

  /** The same with the delay. */
  def needs(time: Long, settings: SyncSettings): Long = time + settings.syncDelay + 1

  private def known(time: Long): Option[Long] = Option.when(time != SyncTimes.Unknown)(time)
}
