package io.tailrace.join

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.SparkContext
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression}
import org.apache.spark.sql.catalyst.plans.{Inner, JoinType, LeftOuter}
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo
import org.apache.spark.sql.execution.streaming.operators.stateful.join.StreamingSymmetricHashJoinHelper._
import org.apache.spark.sql.execution.streaming.operators.stateful.join._
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.streaming.{OutputMode, StateOperatorProgress}
import org.apache.spark.sql.tailrace.{SparkPlans, UnstartedContext}
import org.apache.spark.util.CollectionAccumulator

import io.tailrace.common.TailraceConf
import io.tailrace.progress.HeldWork
import io.tailrace.state.BufferedRows

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
  *
  * It extends Spark's own stream-stream join for one reason: the rules that hand state information and watermarks to an
  * operator know concrete classes only, and call `copy` on them. Everything that Spark then asks of it is overridden.
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
    extends StreamingSymmetricHashJoinExec(
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
    )
    with HeldWork {

  // False while the parent's constructor runs.
  private val constructed = true

  /** The parent's constructor would broadcast what nobody reads. */
  override protected def sparkContext: SparkContext =
    if (constructed) session.sparkContext else UnstartedContext.get

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

  override protected def withNewChildrenInternal(
      newLeft: SparkPlan,
      newRight: SparkPlan
  ): StreamingSymmetricHashJoinExec = copy(
    leftKeys,
    rightKeys,
    joinType,
    condition,
    stateInfo,
    eventTimeWatermarkForLateEvents,
    eventTimeWatermarkForEviction,
    stateWatermarkPredicates,
    stateFormatVersion,
    newLeft,
    newRight,
    outputMode
  )

  // Null while the parent's constructor runs, which asks for it.
  override def output: Seq[Attribute] = if (joinOutput == null) left.output else joinOutput
  override def nodeName: String = "TailraceLabelJoin"
  override def shortName: String = LabelJoinExec.OperatorName
  override def simpleString(maxFields: Int): String =
    s"$nodeName how=${settings.output.name}, keys=[${leftKeys.mkString(", ")}] = [${rightKeys.mkString(", ")}], " +
      s"window=[-${settings.window.before}, +${settings.window.after}] us, match=${settings.policy.name}, " +
      s"strategy=${settings.strategy.name} (${settings.strategy.moment})"

  override val stateStoreNames: Seq[String] = Seq(StateStoreId.DEFAULT_STORE_NAME)
  override def operatorStateMetadataVersion: Int = 1
  override def operatorStateMetadata(stateSchemaPaths: List[List[String]]): OperatorStateMetadata =
    OperatorStateMetadataV1(
      OperatorInfoV1(getStateInfo.operatorId, shortName),
      stateStoreNames.map(StateStoreMetadataV1(_, 0, getStateInfo.numPartitions)).toArray
    )

  override def validateAndMaybeEvolveStateSchema(
      hadoopConf: Configuration,
      batchId: Long,
      stateSchemaVersion: Int
  ): List[StateSchemaValidationResult] = {
    val directory = new Path(getStateInfo.checkpointLocation, getStateInfo.operatorId.toString)
    JoinCheckpoint.check(directory, hadoopConf, batchId, columns, settings)
    val schema = StateStoreColFamilySchema(
      StateStore.DEFAULT_COL_FAMILY_NAME,
      0,
      BufferedRows.KeySchema,
      0,
      BufferedRows.ValueSchema
    )
    // Schema version 2, whatever Spark's own joins are set to: this is a store of one column family.
    List(
      SchemaFile.naming(getStateInfo) {
        StateSchemaCompatibilityChecker.validateAndMaybeEvolveStateSchema(
          getStateInfo,
          hadoopConf,
          List(schema),
          session.sessionState,
          2
        )
      }
    )
  }

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

  override def workName: String = s"$shortName-${stateInfo.fold(0L)(_.operatorId)}"

  override def oldestWaiting: Option[Map[Int, Option[Long]]] = Option.when(settings.isGrouped) {
    waiting.value.asScala.map(one => one.partition -> one.oldest).toMap
  }

  override lazy val instanceMetrics: Map[StateStoreInstanceMetric, SQLMetric] = Map.empty

  override lazy val metrics: Map[String, SQLMetric] = Map(
    "numOutputRows" -> SQLMetrics.createMetric(sparkContext, "number of output rows"),
    "numRowsDroppedByWatermark" ->
      SQLMetrics.createMetric(sparkContext, "number of rows which are dropped by watermark"),
    "numTotalStateRows" -> SQLMetrics.createMetric(sparkContext, "number of total state rows"),
    "numUpdatedStateRows" -> SQLMetrics.createMetric(sparkContext, "number of updated state rows"),
    "allUpdatesTimeMs" -> SQLMetrics.createTimingMetric(sparkContext, "time to update"),
    "numRemovedStateRows" -> SQLMetrics.createMetric(sparkContext, "number of removed state rows"),
    "allRemovalsTimeMs" -> SQLMetrics.createTimingMetric(sparkContext, "time to remove"),
    "commitTimeMs" -> SQLMetrics.createTimingMetric(sparkContext, "time to commit changes"),
    "stateMemory" -> SQLMetrics.createSizeMetric(sparkContext, "most memory that the rows of a batch took"),
    "numStateStoreInstances" -> SQLMetrics.createMetric(sparkContext, "number of state store instances")
  ) ++ JoinMetrics.create(sparkContext)

  override def getProgress(): StateOperatorProgress = {
    val own = JoinMetrics.names.map(name => name -> Long.box(longMetric(name).value)).toMap
    SparkPlans.stateOperatorProgress(
      shortName,
      name => longMetric(name).value,
      getStateInfo.numPartitions,
      own.asJava
    )
  }

  override protected def doExecute(): RDD[InternalRow] = {
    metrics // made on the driver, before the tasks refer to them
    val run = new LabelJoinPartition(
      columns,
      settings,
      getStateInfo,
      watermarkMicros(eventTimeWatermarkForEviction),
      watermarkMicros(eventTimeWatermarkForLateEvents),
      TailraceConf.BatchBufferBytes.read(setting),
      bucketWidth,
      new StateStoreConf(conf),
      SparkPlans.broadcastHadoopConf(session),
      metrics,
      waiting,
      if (conf.stateStoreCheckpointFormatVersion >= 2) Some(checkpointInfoAccumulator) else None
    )
    left
      .execute()
      .stateStoreAwareZipPartitions(
        right.execute(),
        getStateInfo,
        stateStoreNames,
        SparkPlans.stateStoreCoordinator(session)
      )(run)
  }

  private def setting(key: String): Option[String] = SparkPlans.setting(session, key)

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
