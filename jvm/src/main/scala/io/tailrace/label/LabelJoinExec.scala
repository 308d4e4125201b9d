package io.tailrace.label

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression}
import org.apache.spark.sql.catalyst.plans.{Inner, JoinType, LeftOuter}
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo
import org.apache.spark.sql.execution.streaming.operators.stateful.join.StreamingSymmetricHashJoinHelper._
import org.apache.spark.sql.execution.streaming.operators.stateful.join._
import org.apache.spark.sql.streaming.OutputMode
import org.apache.spark.util.CollectionAccumulator

import io.tailrace.common.TailraceConf
import io.tailrace.join.{
  JoinCheckpoint,
  JoinColumns,
  JoinMetrics,
  StoredJoinExec,
  StoredJoinPartition,
  StoredJoinState
}

/** The streaming join, as Spark plans and runs it. Per partition and micro-batch:
  *
  * {{{
  *   left child ──┐ shuffled by key                 ┌─> rows that come out
  *                ├──> JoinTask ── TailraceStateStore┤
  *   right child ─┘ shuffled by key                 └─> commit: next version of the partition's state
  * }}}
  *
  * An example, after = 30 minutes, watermark delay 5 minutes:
  *
  * {{{
  *   batch 1   left (A, 12:00), right (A, 12:10)     watermark 12:05   nothing comes out
  *   batch 2   right (A, 12:25), left (B, 12:36)     watermark 12:31   (A, [12:10, 12:25]) comes out: 12:30 is passed
  *   batch 3   right (A, 12:31)                      late: at the watermark; counted
  * }}}
  */
class LabelJoinExec(
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
)(val columns: JoinColumns, val settings: JoinSettings, val joinOutput: Seq[Attribute])
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
    new LabelJoinExec(
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

  override def nodeName: String = "TailraceLabelJoin"
  override def shortName: String = LabelJoinExec.OperatorName
  override def simpleString(maxFields: Int): String =
    s"$nodeName keys=[${leftKeys.mkString(", ")}] = [${rightKeys.mkString(", ")}], ${settings.text}, " +
      s"strategy=${settings.strategy.name} (${settings.strategy.moment})"

  override protected def boundSettings: Map[String, String] = JoinCheckpoint.settingsOf(columns) ++ Map(
    "how" -> settings.output.name,
    TailraceConf.JoinStrategy.key -> settings.strategy.name,
    "before" -> s"${settings.window.before} microseconds",
    "after" -> s"${settings.window.after} microseconds"
  )

  /** A batch without data is worth running whenever the watermark has moved: rows may have expired. */
  override def shouldRunAnotherBatch(newInputWatermark: Long): Boolean =
    eventTimeWatermarkForEviction.exists(newInputWatermark > _)

  /** No row that comes out later is older than this: it may have waited for its partner or its window's end. */
  override def produceOutputWatermark(inputWatermarkMs: Long): Option[Long] = {
    val wait = if (settings.isGrouped) settings.window.after else settings.window.longestWait
    val waitMs = wait / 1000 + (if (wait % 1000 == 0) 0 else 1)
    Some(Math.max(0L, inputWatermarkMs - waitMs))
  }

  // What tasks say of the partition that they have joined. Of pairs no row waits: they come out at once.
  private lazy val waiting = {
    val accumulator = new CollectionAccumulator[PartitionWaiting]
    sparkContext.register(accumulator)
    accumulator
  }

  private def waitingNow: Map[Int, Option[Long]] =
    waiting.value.asScala.map(one => one.partition -> one.oldest).toMap

  override def hasTold: Boolean = !settings.isGrouped || waitingNow.size == getStateInfo.numPartitions

  override def oldestWaiting: Option[Map[Int, Option[Long]]] = Option.when(settings.isGrouped)(waitingNow)

  override protected def ownMetrics: Map[String, SQLMetric] = JoinMetrics.create(sparkContext)

  override protected def partitions(state: StoredJoinState): StoredJoinPartition =
    new LabelJoinPartition(
      columns,
      settings,
      state,
      watermarkMicros(eventTimeWatermarkForEviction),
      watermarkMicros(eventTimeWatermarkForLateEvents),
      TailraceConf.BatchBufferBytes.read(setting),
      bucketWidth,
      waiting
    )

  private def bucketWidth: Long = {
    val buckets = TailraceConf.BucketsPerWindow.read(setting)
    Math.max(LabelJoinExec.LeastBucketWidth, (settings.window.before + settings.window.after) / buckets)
  }

  // Spark's watermark begins at the epoch, which means that there is none yet.
  private def watermarkMicros(watermarkMs: Option[Long]): Long =
    watermarkMs.filter(_ > 0).fold(JoinWindow.NoWatermark)(_ * 1000)
}

object LabelJoinExec {

  /** What Spark's progress and its metadata in the checkpoint call the operator: never to be changed. */
  val OperatorName = "tailraceLabelJoin"

  /** One second, in microseconds: narrower buckets would be more sections than they save. */
  private val LeastBucketWidth = 1000L * 1000

  def apply(
      columns: JoinColumns,
      settings: JoinSettings,
      output: Seq[Attribute],
      left: SparkPlan,
      right: SparkPlan
  ): LabelJoinExec =
    new LabelJoinExec(
      columns.leftKeys,
      columns.rightKeys,
      if (settings.isGrouped) LeftOuter else Inner,
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
