package org.apache.spark.sql.tailrace

import java.nio.charset.StandardCharsets.UTF_8
import java.security.MessageDigest
import java.util.{HexFormat, UUID}

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.connector.catalog.Table
import org.apache.spark.sql.execution.streaming.runtime._
import org.apache.spark.sql.execution.streaming.{AvailableNowTrigger, OneTimeTrigger}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.util.Clock

/** A running streaming query, from its start on: before its first micro-batch, too. */
final class StreamingRun private (execution: StreamExecution) {
  def queryId: String = execution.id.toString

  /** This start of the query. */
  def runId: String = execution.runId.toString

  def checkpointRoot: String = execution.resolvedCheckpointRoot

  /** The last micro-batch that is committed, of this start or an earlier one. */
  def lastCommittedBatch: Option[Long] = execution.commitLog.getLatestBatchId()

  def tracksProgressAsynchronously: Boolean = execution.isInstanceOf[AsyncProgressTrackingMicroBatchExecution]

  def sink: Table = execution.sink

  /** Names of its sources, if the user names them. */
  def sourceNames: Seq[String] = SourceNames.of(execution.analyzedPlan)

  /** The query's plan, with its sources. */
  def logicalPlan: LogicalPlan = execution.logicalPlan

  /** True if the run ends when all available rows have been read. */
  def endsByItself: Boolean = execution.trigger match {
    case AvailableNowTrigger | OneTimeTrigger => true
    case _ => false
  }

  /** The watermark nodes of the batch that has just run. */
  def watermarkNodes: Seq[EventTimeWatermarkExec] =
    StreamingPlan.watermarkNodes(execution.lastExecution.executedPlan)

  /** True if its watermark is the latest one of its streams. */
  def followsLatestWatermark: Boolean =
    execution.sparkSession.sessionState.conf
      .getConf(SQLConf.STREAMING_MULTIPLE_WATERMARK_POLICY)
      .equalsIgnoreCase("max")

  /** A digest of the end offsets of a micro-batch's sources. */
  def offsets(batchId: Long): String = {
    val text = execution.offsetLog.get(batchId).map(_.toString)
    require(text.isDefined, s"the offset log has no batch $batchId")
    HexFormat.of.formatHex(MessageDigest.getInstance("SHA-256").digest(text.get.getBytes(UTF_8)))
  }

  /** Makes the trigger `processingTime` start a batch at once if there is something to do. To be called after
    * Spark has made the trigger's executor, and before it begins.
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

  /** The run whose thread this is. */
  def current(session: SparkSession): StreamingRun = new StreamingRun(execution(session))

  /** The run that has this sink. */
  def ofSink(session: SparkSession, sink: Table): Option[StreamingRun] =
    active(session).find(_.sink eq sink).map(new StreamingRun(_))

  /** The ids of all runs of the session. */
  def activeIds(session: SparkSession): Set[String] = active(session).map(_.runId.toString).toSet

  /** The name of a run's query, if its user has named it. */
  def name(session: SparkSession, runId: String): Option[String] =
    active(session).find(_.runId.toString == runId).flatMap(run => Option(run.name))

  /** The checkpoints of all runs of the session. */
  def checkpointsInUse(session: SparkSession): Set[String] =
    active(session).map(_.resolvedCheckpointRoot).toSet

  /** True if the query that runs in this thread, if one does, tracks its progress asynchronously. */
  def isAsynchronous(session: SparkSession): Boolean =
    queryId(session).exists(id => new StreamingRun(execution(session, id)).tracksProgressAsynchronously)

  private[tailrace] def execution(session: SparkSession): StreamExecution = {
    val id = queryId(session)
    val key = StreamExecution.QUERY_ID_KEY
    require(id.isDefined, s"no streaming query runs in this thread: $key is not set")
    execution(session, id.get)
  }

  /** Spark keeps it in the local properties of the query's thread, and of threads that plan for the query. */
  private def queryId(session: SparkSession): Option[String] =
    Option(session.sparkContext.getLocalProperty(StreamExecution.QUERY_ID_KEY))

  private def execution(session: SparkSession, id: String): StreamExecution = {
    val found = session.sharedState.activeStreamingQueries.get(UUID.fromString(id))
    require(found != null, s"the query $id isn't active")
    found
  }

  private def active(session: SparkSession): Iterable[StreamExecution] =
    session.sharedState.activeStreamingQueries.values.asScala
}

/** A clock that doesn't wait while there is something to do. */
private final class ImpatientClock(clock: Clock, isWaiting: () => Boolean) extends Clock {
  override def getTimeMillis(): Long = clock.getTimeMillis()
  override def nanoTime(): Long = clock.nanoTime()
  override def waitTillTime(targetTime: Long): Long =
    if (isWaiting()) clock.getTimeMillis() else clock.waitTillTime(targetTime)
}
