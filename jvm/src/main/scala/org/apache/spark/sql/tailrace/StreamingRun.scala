package org.apache.spark.sql.tailrace

import java.util.UUID

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.connector.catalog.Table
import org.apache.spark.sql.execution.streaming.operators.stateful.EventTimeWatermarkExec
import org.apache.spark.sql.execution.streaming.runtime._
import org.apache.spark.sql.execution.streaming.{
  AvailableNowTrigger,
  OneTimeTrigger,
  StreamingQueryPlanTraverseHelper
}
import org.apache.spark.util.Clock

/** The streaming query that runs in this thread, from its start on: before its first micro-batch, too. */
final class StreamingRun private (execution: StreamExecution) {

  /** This start of the query. */
  def runId: String = execution.runId.toString

  def checkpointRoot: String = execution.resolvedCheckpointRoot

  /** The last micro-batch that is done for good, of this start or an earlier one. */
  def lastCommittedBatch: Option[Long] = execution.commitLog.getLatestBatchId()

  def tracksProgressAsynchronously: Boolean = execution.isInstanceOf[AsyncProgressTrackingMicroBatchExecution]

  /** Where the query's rows go. */
  def sink: Table = execution.sink

  /** The query's plan, with its sources. */
  def logicalPlan: LogicalPlan = execution.logicalPlan

  /** Whether the run ends when what is there has been read. */
  def endsByItself: Boolean = execution.trigger match {
    case AvailableNowTrigger | OneTimeTrigger => true
    case _ => false
  }

  /** The watermark nodes of the batch that has just run. */
  def watermarkNodes: Seq[EventTimeWatermarkExec] =
    StreamingQueryPlanTraverseHelper.collectFromUnfoldedPlan(execution.lastExecution.executedPlan) {
      case node: EventTimeWatermarkExec if !node.isInstanceOf[ReusedWatermarkExec] => node
    }

  /** Has a query that waits between its batches, as with the trigger `processingTime`, not wait when there is something to
    * do. To be called after Spark has chosen the executor of its trigger, and before that begins.
    */
  def triggerAtOnceIf(isWaiting: () => Boolean): Unit = execution match {
    case query: MicroBatchExecution =>
      query.triggerExecutor match {
        case ProcessingTimeExecutor(trigger, clock) if trigger.intervalMs > 0 =>
          query.triggerExecutor = ProcessingTimeExecutor(trigger, new ImpatientClock(clock, isWaiting))
        case _ =>
      }
    case _ =>
  }
}

object StreamingRun {
  def current(session: SparkSession): StreamingRun = {
    new StreamingRun(execution(session))
  }

  /** Whether the query that runs in this thread, if one does, writes its progress behind its micro-batches' backs. */
  def isAsynchronous(session: SparkSession): Boolean = {
    val id = session.sparkContext.getLocalProperty(StreamExecution.QUERY_ID_KEY)
    id != null && new StreamingRun(execution(session, id)).tracksProgressAsynchronously
  }

  /** Spark keeps the query in the thread's local properties, and hands them on to threads that plan for it. */
  private[tailrace] def execution(session: SparkSession): StreamExecution = {
    val id = session.sparkContext.getLocalProperty(StreamExecution.QUERY_ID_KEY)
    require(id != null, s"no streaming query runs in this thread: ${StreamExecution.QUERY_ID_KEY} is not set")
    execution(session, id)
  }

  private[tailrace] def execution(session: SparkSession, id: String): StreamExecution = {
    val found = session.sharedState.activeStreamingQueries.get(UUID.fromString(id))
    require(found != null, s"the query $id isn't active")
    found
  }
}

/** A clock that doesn't wait while there is something to do. */
private final class ImpatientClock(clock: Clock, isWaiting: () => Boolean) extends Clock {
  override def getTimeMillis(): Long = clock.getTimeMillis()
  override def nanoTime(): Long = clock.nanoTime()
  override def waitTillTime(targetTime: Long): Long =
    if (isWaiting()) clock.getTimeMillis() else clock.waitTillTime(targetTime)
}
