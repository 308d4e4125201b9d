package org.apache.spark.sql.tailrace

import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.streaming.InternalOutputModes
import org.apache.spark.sql.classic.{Dataset => ClassicDataset, SparkSession => ClassicSession}
import org.apache.spark.sql.execution.streaming.state.StateStoreCoordinatorRef
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streaming.{OutputMode, StateOperatorProgress}
import org.apache.spark.sql.types.DataType
import org.apache.spark.sql.{DataFrame, Dataset}
import org.apache.spark.util.SerializableConfiguration

/** Spark's internals that plans and operators use. */
object SparkPlans {

  def analyzed(frame: Dataset[_]): LogicalPlan = frame.asInstanceOf[ClassicDataset[_]].queryExecution.analyzed

  def session(frame: Dataset[_]): ClassicSession = frame.asInstanceOf[ClassicDataset[_]].sparkSession

  def toFrame(session: ClassicSession, plan: LogicalPlan): DataFrame = ClassicDataset.ofRows(session, plan)

  /** The type with nulls allowed in it, at any depth. */
  def nullable(dataType: DataType): DataType = dataType.asNullable

  def hasStrategy(session: ClassicSession, strategy: SparkStrategy): Boolean =
    session.sessionState.planner.strategies.contains(strategy)

  /** A plan after the session's optimizer, of a stream too, which Spark itself would want to be started first. */
  def optimized(session: ClassicSession, plan: LogicalPlan): LogicalPlan =
    session.sessionState.optimizer.execute(plan.clone())

  /** A copy of a session that plans all of a query at once: nothing is left for later, when the first of its exchanges have
    * run.
    *
    * @param broadcastBytes tables up to this size are broadcast in a join; the session's own limit, if that is greater or
    *                       forbids it
    */
  def planningSession(session: ClassicSession, broadcastBytes: Long): ClassicSession = {
    val copy = session.cloneSession()
    copy.conf.set(SQLConf.ADAPTIVE_EXECUTION_ENABLED.key, "false")
    val own = session.sessionState.conf.autoBroadcastJoinThreshold
    if (own >= 0)
      copy.conf.set(SQLConf.AUTO_BROADCASTJOIN_THRESHOLD.key, Math.max(own, broadcastBytes).toString)
    copy
  }

  def executedPlan(session: ClassicSession, plan: LogicalPlan): SparkPlan =
    session.withActive(session.sessionState.executePlan(plan).executedPlan)

  /** The value that is set for a key in the session. */
  def setting(session: ClassicSession, key: String): Option[String] =
    Option(session.sessionState.conf.getConfString(key, null))

  /** The value that is set for a key in the session that is at work in this thread: a query's own, while it is planned. */
  def activeSetting(key: String): Option[String] = Option(SQLConf.get.getConfString(key, null))

  def stateStoreCoordinator(session: ClassicSession): StateStoreCoordinatorRef =
    session.sessionState.streamingQueryManager.stateStoreCoordinator

  def isAppend(mode: OutputMode): Boolean = mode == InternalOutputModes.Append

  /** Broadcasts the Hadoop configuration, with the session's settings in it. */
  def broadcastHadoopConf(session: ClassicSession): Broadcast[SerializableConfiguration] =
    SerializableConfiguration.broadcast(session.sparkContext, session.sessionState.newHadoopConf())

  /** @param metric the value of one of Spark's standard metrics of a stateful operator */
  def stateOperatorProgress(
      name: String,
      metric: String => Long,
      partitions: Int,
      custom: java.util.Map[String, java.lang.Long]
  ): StateOperatorProgress =
    new StateOperatorProgress(
      operatorName = name,
      numRowsTotal = metric("numTotalStateRows"),
      numRowsUpdated = metric("numUpdatedStateRows"),
      allUpdatesTimeMs = metric("allUpdatesTimeMs"),
      numRowsRemoved = metric("numRemovedStateRows"),
      allRemovalsTimeMs = metric("allRemovalsTimeMs"),
      commitTimeMs = metric("commitTimeMs"),
      memoryUsedBytes = metric("stateMemory"),
      numRowsDroppedByWatermark = metric("numRowsDroppedByWatermark"),
      numShufflePartitions = partitions.toLong,
      numStateStoreInstances = metric("numStateStoreInstances"),
      customMetrics = custom
    )
}
