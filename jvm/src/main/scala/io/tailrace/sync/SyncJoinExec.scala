package io.tailrace.sync

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression}
import org.apache.spark.sql.catalyst.plans.{JoinType, LeftOuter}
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.execution.streaming.operators.stateful.join.StreamingSymmetricHashJoinHelper._
import org.apache.spark.sql.execution.streaming.operators.stateful.join._
import org.apache.spark.sql.execution.streaming.operators.stateful.{
  EventTimeWatermarkExec,
  StateStoreWriter,
  StatefulOperatorStateInfo
}
import org.apache.spark.sql.streaming.OutputMode
import org.apache.spark.sql.tailrace.{StreamInputs, StreamingBatch, StreamingPlan, StreamingRun}

import io.tailrace.common.TailraceConf
import io.tailrace.driver.{FollowsWatermarks, Silence}
import io.tailrace.join.{JoinCheckpoint, JoinColumns, StoredJoinExec, StoredJoinPartition, StoredJoinState}

/** The synced join, as Spark plans and runs it. Per partition and micro-batch:
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
class SyncJoinExec(
    leftKeys: Seq[Expression],
    rightKeys: Seq[Expression],
    joinType: JoinType,
    condition: JoinConditionSplitPredicates,
    stateInfo: Option[StatefulOperatorStateInfo],
    eventTimeWatermarkForLateEvents: Option[Long],
    eventTimeWatermarkForEviction: Option[Long],
    stateWatermarkPredicates: JoinStateWatermarkPredicates,
    stateFormatVersion: Int,
    left: SparkPlan,
    right: SparkPlan,
    outputMode: Option[OutputMode]
)(val columns: JoinColumns, val settings: SyncSettings, val joinOutput: Seq[Attribute])
    extends StoredJoinExec(
      leftKeys,
      rightKeys,
      joinType,
      condition,
      stateInfo,
      eventTimeWatermarkForLateEvents,
      eventTimeWatermarkForEviction,
      stateWatermarkPredicates,
      stateFormatVersion,
      left,
      right,
      outputMode
    ) {

  override protected def otherCopyArgs: Seq[AnyRef] = Seq(columns, settings, joinOutput)

  override def copy(
      leftKeys: Seq[Expression],
      rightKeys: Seq[Expression],
      joinType: JoinType,
      condition: JoinConditionSplitPredicates,
      stateInfo: Option[StatefulOperatorStateInfo],
      eventTimeWatermarkForLateEvents: Option[Long],
      eventTimeWatermarkForEviction: Option[Long],
      stateWatermarkPredicates: JoinStateWatermarkPredicates,
      stateFormatVersion: Int,
      left: SparkPlan,
      right: SparkPlan,
      outputMode: Option[OutputMode]
  ): StreamingSymmetricHashJoinExec =
    new SyncJoinExec(
      leftKeys,
      rightKeys,
      joinType,
      condition,
      stateInfo,
      eventTimeWatermarkForLateEvents,
      eventTimeWatermarkForEviction,
      stateWatermarkPredicates,
      stateFormatVersion,
      left,
      right,
      outputMode
    )(columns, settings, joinOutput)

  override def nodeName: String = "TailraceSyncJoin"
  override def shortName: String = SyncJoinExec.OperatorName
  override def simpleString(maxFields: Int): String =
    s"$nodeName ${settings.name}, keys=[${leftKeys.mkString(", ")}] = [${rightKeys.mkString(", ")}], " +
      s"sync_delay=${settings.syncDelay} us, window=${settings.window} us, on_stall=${settings.onStall.name}"

  /** The delay and what is done about stalls say when rows are decided, not what the state means: they may change. */
  override protected def boundSettings: Map[String, String] = JoinCheckpoint.settingsOf(columns) ++ Map(
    "how" -> SyncJoinExec.How,
    "window" -> s"${settings.window} microseconds"
  )

  /** Else it would wait for partitions that nobody names any more. */
  override protected def settingsAddedLater: Map[String, String] = Map(
    "left_partition" -> settings.leftPartition.mkString(", "),
    "right_partition" -> settings.rightPartition.mkString(", ")
  )

  // The driver's own: nodes go to executors along with others'.
  @transient private lazy val batch: StreamingBatch = StreamingBatch.current(session)
  @transient private lazy val run: SyncRun = SyncRun.of(session, settings)
  @transient private lazy val times: SyncTimes = run.times(batch.batchId)
  @transient private lazy val held = run.held(batch.batchId)

  override def hasTold: Boolean = heldNow.size == getStateInfo.numPartitions

  private def heldNow: Map[Int, SyncHeld] = held.value.asScala.map(one => one.partition -> one).toMap

  /** A batch without data is worth running when the next release or expiry takes a row out of the state, and when operators
    * behind the join close something by what this batch has released.
    */
  override def shouldRunAnotherBatch(newInputWatermark: Long): Boolean = {
    val another =
      takesOut(run.next) || run.needsBatch(Silence.nowMs) || isFollowed && closesMore(newInputWatermark)
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
        s"TAILRACE_SYNC_HELD: the run ends, and the join '${settings.name}' holds $left left rows and $right right ones: " +
          "they come out in a later run, when the right side has been read past them"
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

  /** Left rows that come out later are at the release time or after it. Spark asks for the batch before this one too, after
    * a restart: what is true of that is true of this one. Without a watermark below there is none here either, and the user
    * may set one after the join.
    */
  override def produceOutputWatermark(inputWatermarkMs: Long): Option[Long] =
    Option.when(hasWatermark)(outputWatermark(inputWatermarkMs, run.timesBefore(batch.batchId)))

  private def outputWatermark(inputWatermarkMs: Long, before: SyncTimes): Long =
    Math.max(0L, Math.min(inputWatermarkMs, Math.floorDiv(SyncRules.releasedThrough(before), 1000L)))

  /** Whether the output watermark of the next batch is further than this one's. */
  private def closesMore(newInputWatermark: Long): Boolean = hasWatermark &&
    outputWatermark(newInputWatermark, times) >
    eventTimeWatermarkForEviction.fold(0L)(outputWatermark(_, run.timesBefore(batch.batchId)))

  /** Whether an operator reads what comes out that has a watermark to follow. */
  private def isFollowed: Boolean = {
    val plan = StreamingBatch.running(session).plan
    StreamingPlan.nodes(plan).exists {
      case node: StateStoreWriter => (node ne this) && StreamingPlan.nodes(node).exists(_ eq this)
      case _ => false
    }
  }

  private def hasWatermark: Boolean = StreamingPlan.nodes(this).exists {
    case _: FollowsWatermarks => false
    case node => node.isInstanceOf[EventTimeWatermarkExec]
  }

  override def oldestWaiting: Option[Map[Int, Option[Long]]] =
    Some(heldNow.map { case (partition, rows) => partition -> rows.oldestLeft })

  override protected def ownMetrics: Map[String, SQLMetric] = SyncMetrics.create(sparkContext)

  override protected def partitions(state: StoredJoinState): StoredJoinPartition =
    new SyncJoinPartition(
      columns,
      settings,
      state,
      times,
      TailraceConf.BatchBufferBytes.read(setting),
      settings.joinedThrough(batch.clockMs),
      held
    )
}

object SyncJoinExec {

  /** What Spark's progress and its metadata in the checkpoint call the operator: never to be changed. */
  val OperatorName = "tailraceSyncJoin"

  /** What tells its checkpoints from those of a label join; not to be changed either. */
  private val How = "sync"

  def apply(
      columns: JoinColumns,
      settings: SyncSettings,
      output: Seq[Attribute],
      left: SparkPlan,
      right: SparkPlan
  ): SyncJoinExec =
    new SyncJoinExec(
      columns.leftKeys,
      columns.rightKeys,
      LeftOuter,
      JoinConditionSplitPredicates(None, None, None, None),
      None,
      None,
      None,
      JoinStateWatermarkPredicates(),
      2,
      left,
      right,
      None
    )(columns, settings, output)
}
