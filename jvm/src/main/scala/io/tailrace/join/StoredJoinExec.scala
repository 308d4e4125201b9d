package io.tailrace.join

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.SparkContext
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression}
import org.apache.spark.sql.catalyst.plans.JoinType
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo
import org.apache.spark.sql.execution.streaming.operators.stateful.join.StreamingSymmetricHashJoinHelper._
import org.apache.spark.sql.execution.streaming.operators.stateful.join._
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.streaming.{OutputMode, StateOperatorProgress}
import org.apache.spark.sql.tailrace.{SparkPlans, UnstartedContext}

import io.tailrace.driver.{HeldWork, TellsDriver}
import io.tailrace.state.BufferedRows

/** A streaming join whose state is in [[io.tailrace.state.TailraceStateStore]], as Spark plans and runs it.
  *
  * It extends Spark's own stream-stream join for one reason: the rules that hand state information and watermarks to an
  * operator know concrete classes only, and call `copy` on them. Everything that Spark then asks of it is overridden,
  * here or by the join itself.
  */
abstract class StoredJoinExec(
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
) extends StreamingSymmetricHashJoinExec(
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
    with HeldWork
    with TellsDriver {

  /** The columns that come out. */
  def joinOutput: Seq[Attribute]

  /** What its rows in the state mean, by the name that a user knows it under: a checkpoint is bound to it. */
  protected def boundSettings: Map[String, String]

  /** Those that checkpoints don't name which an earlier version has begun. */
  protected def settingsAddedLater: Map[String, String] = Map.empty

  /** The join's own metrics. */
  protected def ownMetrics: Map[String, SQLMetric]

  /** What runs on each partition of a micro-batch. */
  protected def partitions(state: StoredJoinState): StoredJoinPartition

  // False while the parent's constructor runs.
  private val constructed = true

  /** The parent's constructor would broadcast what nobody reads. */
  override protected def sparkContext: SparkContext =
    if (constructed) session.sparkContext else UnstartedContext.get

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
    JoinCheckpoint.check(directory, hadoopConf, batchId, boundSettings, settingsAddedLater)
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

  override def workName: String = s"$shortName-${stateInfo.fold(0L)(_.operatorId)}"

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
  ) ++ joinMetrics

  private lazy val joinMetrics: Map[String, SQLMetric] = ownMetrics

  override def getProgress(): StateOperatorProgress =
    SparkPlans.stateOperatorProgress(
      shortName,
      name => longMetric(name).value,
      getStateInfo.numPartitions,
      joinMetrics.map { case (name, metric) => name -> Long.box(metric.value) }.asJava
    )

  override protected def doExecute(): RDD[InternalRow] = {
    metrics // made on the driver, before the tasks refer to them
    val run = partitions(
      StoredJoinState(
        getStateInfo,
        new StateStoreConf(conf),
        SparkPlans.broadcastHadoopConf(session),
        metrics,
        if (conf.stateStoreCheckpointFormatVersion >= 2) Some(checkpointInfoAccumulator) else None
      )
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

  protected final def setting(key: String): Option[String] = SparkPlans.setting(session, key)
}
