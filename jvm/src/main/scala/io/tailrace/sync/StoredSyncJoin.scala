package io.tailrace.sync

import scala.jdk.CollectionConverters._

import org.apache.spark.SparkContext
import org.apache.spark.internal.Logging
import org.apache.spark.sql.catalyst.plans.{JoinType, LeftOuter}
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.tailrace.{
  EventTimeWatermarkExec,
  StateStoreWriter,
  StreamInputs,
  StreamingBatch,
  StreamingPlan,
  StreamingRun
}
import org.apache.spark.util.CollectionAccumulator

import io.tailrace.driver.{DriverClock, DriverWatermarkExec, JoinFacts, NextRow, SyncFacts}
import io.tailrace.join._
import io.tailrace.state.{StoreKind, TailraceStateStore}

/** The synced join of two streams. Per partition and micro-batch:
  *
  * {{{
  *   left child ──┐ shuffled by key                     ┌─> rows that come out
  *                ├──> SyncJoinTask ── TailraceStateStore┤
  *   right child ─┘ shuffled by key                     └─> commit: next version of the partition's state
  *                        └ SyncRun.times: what the batch is judged by
  * }}}
  *
  * An example, sync_delay 5 seconds:
  *
  * {{{
  *   batch 1   left (A, 12:00:00), right (A, 12:00:01)     right partitions read up to 12:00:04 and 12:00:06
  *   batch 2   nothing is released: the slowest, less 5 seconds, is at 11:59:59; it gets as far as 12:00:10
  *   batch 3   release time 12:00:05: (A, 12:00:00, 12:00:01) comes out
  * }}}
  */
final case class StoredSyncJoin(columns: JoinColumns, settings: SyncSettings) extends StoredJoin {
  override def nodeName: String = "TailraceSyncJoin"
  override def operatorName: String = JoinCheckpoint.SyncJoin
  override def joinType: JoinType = LeftOuter
  override def words(keys: String): String =
    if (settings.name == SyncOptions.Name) s"sync join on $keys" else s"sync join ${settings.name} on $keys"
  override def explain: String =
    s"$nodeName ${settings.name}, ${columns.keysText}, sync_delay=${settings.syncDelay} us, " +
      s"window=${settings.window} us, on_stall=${settings.onStall.name}" +
      (if (settings.exactlyOne) ", exactly_one=true" else "")

  /** Delay, exactly_one and policies of stalls may change: they decide when rows come out, not what the state means. */
  override def boundSettings: Map[String, String] = JoinCheckpoint.settingsOf(columns) ++ Map(
    "how" -> StoredSyncJoin.How,
    "window" -> s"${settings.window} microseconds"
  )

  /** Without them the join would wait for partitions that nobody names any more. */
  override def settingsAddedLater: Map[String, LaterSetting] = Map(
    "left_partition" -> LaterSetting.known(settings.leftPartition.mkString(", ")),
    "right_partition" -> LaterSetting.known(settings.rightPartition.mkString(", "))
  )

  override def createMetrics(context: SparkContext): Map[String, SQLMetric] = SyncMetrics.create(context)
  override def onDriver(exec: StoredJoinExec): StoredJoinDriver = new SyncJoinDriver(settings, exec)
}

object StoredSyncJoin {

  /** Tells its checkpoints from those of a label join. It never changes. */
  private val How = "sync"
}

private[sync] final class SyncJoinDriver(settings: SyncSettings, exec: StoredJoinExec)
    extends StoredJoinDriver
    with Logging {
  import exec.session

  private lazy val batch: StreamingBatch = StreamingBatch.current(session)
  private lazy val run: SyncRun = SyncRun.of(session, settings)
  private lazy val times: SyncTimes = run.times(batch.batchId)
  private lazy val held = run.held(batch.batchId)

  override def hasTold: Boolean = heldNow.size == exec.getStateInfo.numPartitions

  private def heldNow: Map[Int, SyncHeld] = held.value.asScala.map(one => one.partition -> one).toMap

  /** A batch without data is worth running if the next release or expiry takes a row out of the state, or if
    * operators behind the join close something by what this batch has released.
    */
  override def needsAnother(watermarkMs: Long): Boolean = {
    val another =
      takesOut(run.next) || run.needsBatch(DriverClock.ms) || isFollowed && closesMore(watermarkMs)
    // Spark asks when it knows what the next batch would read.
    if (!another && StreamingRun.current(session).endsByItself && !StreamInputs.all(session).hasNew)
      tellWhatIsHeld()
    another
  }

  private def tellWhatIsHeld(): Unit = {
    val left = heldNow.values.map(_.left).sum
    val right = heldNow.values.map(_.right).sum
    if (left > 0) {
      logWarning(
        s"TAILRACE_SYNC_HELD: the run ends, and the join '${settings.name}' holds $left left rows and " +
          s"$right right ones: they come out in a later run, when the right side has been read past them"
      )
    }
  }

  private def takesOut(next: SyncTimes): Boolean = {
    val released = SyncRules.releasedThrough(next)
    val expired = SyncRules.rightExpiry(next, settings)
    val isFurther = released > SyncRules.releasedThrough(times) ||
      expired > SyncRules.rightExpiry(times, settings)
    isFurther && heldNow.values.exists { partition =>
      partition.oldestLeft.exists(_ <= released) || partition.oldestRight.exists(_ <= expired)
    }
  }

  /** Left rows that are emitted later are at the release time or after it. Spark asks for the batch before this
    * one too, after a restart: what is true of that is true of this one. Without a watermark below there is
    * none here either, and the user may set one after the join.
    */
  override def outputWatermark(inputWatermarkMs: Long): Option[Long] =
    Option.when(hasWatermark)(watermarkBehind(inputWatermarkMs, run.timesBefore(batch.batchId)))

  private def watermarkBehind(inputWatermarkMs: Long, before: SyncTimes): Long =
    Math.max(0L, Math.min(inputWatermarkMs, Math.floorDiv(SyncRules.releasedThrough(before), 1000L)))

  /** True if the output watermark of the next batch is further than this one's. */
  private def closesMore(watermarkMs: Long): Boolean = hasWatermark &&
    watermarkBehind(watermarkMs, times) >
    exec.eventTimeWatermarkForEviction.fold(0L)(watermarkBehind(_, run.timesBefore(batch.batchId)))

  /** True if an operator reads what is emitted that has a watermark to follow. */
  private def isFollowed: Boolean = {
    val plan = StreamingBatch.running(session).plan
    StreamingPlan.nodes(plan).exists {
      case node: StateStoreWriter => (node ne exec) && StreamingPlan.nodes(node).exists(_ eq exec)
      case _ => false
    }
  }

  private def hasWatermark: Boolean = StreamingPlan.nodes(exec).exists {
    case own: DriverWatermarkExec => !own.watermark.followsOthers
    case node => node.isInstanceOf[EventTimeWatermarkExec]
  }

  override def oldestWaiting: Option[Map[Int, Option[Long]]] =
    Some(heldNow.map { case (partition, rows) => partition -> rows.oldestLeft })

  override def waits: JoinFacts = {
    val oldest = heldNow.collect { case (partition, SyncHeld(_, _, _, Some(time), _)) =>
      time -> partition
    }.minOption
    SyncFacts(
      SyncWaits.released(run.next),
      heldNow.values.map(_.left).sum,
      heldNow.values.map(_.right).sum,
      oldest.map { case (time, partition) =>
        NextRow(time, isBound = true, partition, key = None, Some(SyncWaits.needs(time, settings)))
      },
      run.sides
    )
  }

  override def tasks: StoredJoinTasks =
    new SyncJoinTasks(settings, times, settings.joinedThrough(batch.clockMs), held)
}

private[sync] final class SyncJoinTasks(
    settings: SyncSettings,
    times: SyncTimes,
    joinedThrough: Long,
    held: CollectionAccumulator[SyncHeld]
) extends StoredJoinTasks {
  override def task(context: StoredJoinContext): StoredJoinTask =
    new SyncJoinTask(context, settings, times, joinedThrough)

  override def leftKinds: Seq[StoreKind] = Seq(StoreKind.HeldLeft)
  override def rightKind: StoreKind = StoreKind.HeldRight
  override def joinedKinds: Seq[StoreKind] = Seq(StoreKind.JoinedRight, StoreKind.JoinedLeft)

  override def report(store: TailraceStateStore, metric: String => SQLMetric): Unit = {
    val now = SyncJoinTasks.heldIn(store)
    metric(SyncMetrics.HeldLeft) += now.left
    metric(SyncMetrics.HeldRight) += now.right
    held.add(now)
  }
}

private[sync] object SyncJoinTasks {

  /** The rows that a store holds. Its oldest row may be newer than this says: only the files would tell. */
  def heldIn(store: TailraceStateStore): SyncHeld = {
    def rows(kind: StoreKind): Long = store.sectionsOf(kind).map(_.section.liveRows).sum
    def oldest(kind: StoreKind, gone: Long): Option[Long] =
      store
        .sectionsOf(kind)
        .map(_.section)
        .filter(_.liveRows > 0)
        .map(section => if (section.minTime > gone) section.minTime else gone + 1)
        .minOption
    SyncHeld(
      store.id.partitionId,
      rows(StoreKind.HeldLeft),
      rows(StoreKind.HeldRight),
      oldest(StoreKind.HeldLeft, store.expiredThrough),
      oldest(StoreKind.HeldRight, store.operatorTime)
    )
  }
}
