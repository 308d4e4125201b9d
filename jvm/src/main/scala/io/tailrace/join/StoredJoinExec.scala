package io.tailrace.join

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression}
import org.apache.spark.sql.catalyst.plans.JoinType
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.streaming.{OutputMode, StateOperatorProgress}
import org.apache.spark.sql.tailrace._

import io.tailrace.common.TailraceConf
import io.tailrace.driver.{HeldWork, RunState, SkippedBatch, TellsDriver}
import io.tailrace.state.{OwnStoreConf, StateLayout}

/** The operator of any streaming join of ours in Spark's plan. [[StoredJoin]] says what one kind does.
  *
  * Of Spark's own join it keeps what Spark's rules hand to it (see [[SparkJoinExec]]). All else is overridden.
  */
final class StoredJoinExec(
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
)(val join: StoredJoin, override val output: Seq[Attribute])
    extends SparkJoinExec(
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
    )(SparkJoinExec.forParent)
    with HeldWork
    with TellsDriver {
  override protected def ownCopyArgs: Seq[AnyRef] = Seq(join, output)

  override protected def made(
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
  ): StoredJoinExec =
    new StoredJoinExec(
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
    )(join, output)

  @transient private lazy val driver: StoredJoinDriver = join.onDriver(this)

  override def shouldRunAnotherBatch(newInputWatermark: Long): Boolean =
    driver.needsAnother(newInputWatermark)
  override def produceOutputWatermark(inputWatermarkMs: Long): Option[Long] =
    driver.outputWatermark(inputWatermarkMs)
  override def hasTold: Boolean = driver.hasTold &&
    (!hasIds || checkpointInfoAccumulator.value.size >= getStateInfo.numPartitions)

  /** In checkpoint format 2, Spark asks for the ids of the new version, and ends the query if there are none. */
  override def getStateStoreCheckpointInfo(): Array[StatefulOpStateStoreCheckpointInfo] = {
    SkippedBatch.runIfSkipped(session)
    super.getStateStoreCheckpointInfo()
  }

  private def hasIds: Boolean = conf.stateStoreCheckpointFormatVersion >= 2

  override def oldestWaiting: Option[Map[Int, Option[Long]]] = driver.oldestWaiting

  // Spark compares its own parameters only. They don't tell joins of one input with other settings apart.
  override def equals(other: Any): Boolean = other match {
    case that: StoredJoinExec => join == that.join && super.equals(that)
    case _ => false
  }

  override def nodeName: String = join.nodeName
  override def shortName: String = join.operatorName
  override def simpleString(maxFields: Int): String = join.explain

  override protected def bindCheckpoint(
      hadoopConf: Configuration,
      batchId: Long
  ): StateSchemaValidationResult = {
    bound {
      if (!sparkContext.isLocal)
        ClusterSettings.thatMovePartitions(sparkContext.getConf).foreach { setting =>
          logWarning(s"TAILRACE_STATE_MOVES: $workName keeps its state on its executors, and $setting")
        }
      val sources = NamedSources.of(session, directory.getParent.getParent, hadoopConf, batchId)
      val BoundCheckpoint(found, told) =
        JoinCheckpoint.bind(directory, hadoopConf, batchId, join, sources)
      if (told.nonEmpty)
        logWarning(
          s"TAILRACE_STATE_COLUMNS: the columns of $workName have changed. In rows that wait ${told.mkString(", ")}"
        )
      val ids = getStateInfo.stateStoreCkptIds.map(_.length)
      StoredJoinExec.Bound(found, found.layout(getStateInfo.numPartitions, directory, ids), batchId)
    }
    SchemaFile.validate(getStateInfo, hadoopConf, session)
  }

  /** Spark validates the checkpoint before it asks how rows have to be spread. The plan that `explain` shows has none. */
  override protected def keyOrder: Seq[Int] = {
    val found = StoredJoinExec.bound.find(getStateInfo.queryRunId.toString, workName)
    val ordered = found.fold(join.columns)(of => join.columns.withKeysAsIn(of.checkpoint.settings))
    ordered.leftKeys.zip(ordered.rightKeys).map(join.columns.leftKeys.zip(join.columns.rightKeys).indexOf(_))
  }

  override protected def leftSpread: Option[Expression] = join.leftSpread

  override def workName: String = s"$shortName-$operatorId"

  override def words: String = join.words(keyWords)

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
  ) ++ joinMetrics

  private lazy val joinMetrics: Map[String, SQLMetric] = join.createMetrics(sparkContext)

  /** Spark asks at the end of a batch, in the query's thread. */
  override def getProgress(): StateOperatorProgress = {
    NoOutputWarning.after(this, JoinMetrics.rowsRead(metrics) -> longMetric("numOutputRows").value)(
      driver.waits
    )
    val own = joinMetrics.map { case (name, metric) => name -> Long.box(metric.value) }.asJava
    SparkPlans
      .stateOperatorProgress(shortName, longMetric(_).value, getStateInfo.numPartitions, own)
  }

  override protected def doExecute(): RDD[InternalRow] = {
    metrics // made on the driver, before the tasks refer to them
    deleteFormerState()
    val partition = new StoredJoinPartition(
      join.columns.withKeysAsIn(nowBound.checkpoint.settings),
      driver.tasks,
      getStateInfo,
      new OwnStoreConf(conf, nowBound.layout.store, nowBound.checkpoint.shapes),
      RunState.hadoopConf(session),
      metrics,
      Option.when(hasIds)(checkpointInfoAccumulator),
      TailraceConf.BatchBufferBytes.read(setting)
    )
    zipped(partition)
  }

  /** The settings that the checkpoint is bound to. */
  def checkpointSettings: Map[String, String] = nowBound.checkpoint.settings

  /** Which windows the join has had. */
  def grown: Seq[Growth] = nowBound.checkpoint.grown

  /** The number of partitions that decides when rows leave. */
  def partitionsOfRelease: Int = {
    val cutOff = nowBound.layout.cutOff.filter(_.batch == batchId)
    cutOff.fold(getStateInfo.numPartitions)(_.partitions)
  }

  def batchId: Long = StreamingBatch.current(session).batchId

  /** Spark has validated the checkpoint before it asks for anything else. */
  private def nowBound: StoredJoinExec.Bound = bound {
    throw new IllegalStateException(s"$workName is asked for a batch before its checkpoint is validated")
  }

  private def bound(open: => StoredJoinExec.Bound): StoredJoinExec.Bound =
    StoredJoinExec.bound.of(session, getStateInfo.queryRunId.toString, workName)(open)

  /** The operator's, in the checkpoint. */
  private def directory = new Path(getStateInfo.checkpointLocation, getStateInfo.operatorId.toString)

  /** With the second batch of a run: the first one has completed. */
  private def deleteFormerState(): Unit = {
    val now = nowBound
    if (now.checkpoint.layouts.exists(_ != now.layout) && batchId > now.first)
      StoredJoinExec.cleaned.of(session, getStateInfo.queryRunId.toString, workName) {
        logInfo(s"$workName deletes the state of another number of partitions")
        val conf = session.sessionState.newHadoopConf()
        FormerLayouts.delete(directory, conf, now.checkpoint, now.layout)
      }
  }

  /** A setting of the session, as [[TailraceConf]] reads it. */
  def setting(key: String): Option[String] = SparkPlans.setting(session, key)
}

object StoredJoinExec {
  // Read once a run: Spark validates a checkpoint when it plans the first micro-batch of a run.
  private val bound = new RunState[Bound]
  private val cleaned = new RunState[Unit]

  /** @param first batch of the run */
  private final case class Bound(checkpoint: JoinCheckpoint, layout: StateLayout, first: Long)

  /** @param output the columns that are emitted
    * @param left   the plan of the left side, with the event time of the join as its only one
    */
  def apply(
      join: StoredJoin,
      output: Seq[Attribute],
      left: SparkPlan,
      right: SparkPlan
  ): StoredJoinExec =
    new StoredJoinExec(
      join.columns.leftKeys,
      join.columns.rightKeys,
      join.joinType,
      SparkJoinExec.NoCondition,
      None,
      None,
      None,
      SparkJoinExec.NoPredicates,
      2,
      OneEventTimeExec.side(left, join.columns.leftTime),
      OneEventTimeExec.side(right, join.columns.rightTime),
      None
    )(join, output)
}
