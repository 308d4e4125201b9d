package org.apache.spark.sql.tailrace

import java.nio.charset.StandardCharsets.UTF_8
import java.security.MessageDigest
import java.util.{HexFormat, UUID}

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.streaming.WriteToStreamStatement
import org.apache.spark.sql.connector.catalog.Table
import org.apache.spark.sql.execution.streaming.runtime._
import org.apache.spark.sql.execution.streaming.{
  AvailableNowTrigger,
  ContinuousTrigger,
  OneTimeTrigger,
  RealTimeTrigger
}
import org.apache.spark.sql.execution.{SQLExecution, SparkPlan}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streaming.OutputMode
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

  /** The clock of the run: see [[RunClock]]. */
  def clock: RunClock = RunClock.of(execution)

  /** True if the run ends when all available rows have been read. */
  def endsByItself: Boolean = execution.trigger match {
    case AvailableNowTrigger | OneTimeTrigger => true
    case _ => false
  }

  /** When Spark asked the sources for the batch that runs, in milliseconds since 1970 by the run's clock. */
  def askedMs: Long = StreamingRun.askedMs(execution.getLatestExecutionContext())

  /** When Spark last asked the sources; none while it asks, and while a micro-batch is made or runs. For other threads
    * than the query's, which sees that a batch has run by what it does.
    */
  def answeredMs: Option[Long] = {
    val context = execution.getLatestExecutionContext()
    val asked = StreamingRun.askedMs(context)
    // In this order: the query's thread may begin to ask meanwhile.
    val isDone = !context.currentStatus.isTriggerActive && StreamingRun.askedMs(context) == asked
    Option.when(execution.isActive && isDone && asked > 0)(asked)
  }

  /** The watermark nodes of the batch that has just run. */
  def watermarkNodes: Seq[EventTimeWatermarkExec] =
    StreamingPlan.watermarkNodes(execution.lastExecution.executedPlan)

  /** True if its watermark is the latest one of its streams. */
  def followsLatestWatermark: Boolean = StreamingRun.followsLatestWatermark(execution)

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

  /** Scala's `protected` is public for the JVM. */
  private def askedMs(context: StreamExecutionContext): Long =
    classOf[ProgressContext]
      .getMethod("currentTriggerStartTimestamp")
      .invoke(context)
      .asInstanceOf[java.lang.Long]
      .longValue

  private[tailrace] def followsLatestWatermark(execution: StreamExecution): Boolean =
    execution.sparkSession.sessionState.conf
      .getConf(SQLConf.STREAMING_MULTIPLE_WATERMARK_POLICY)
      .equalsIgnoreCase("max")

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

  /** The clock of a run; that of the system if the run has ended. */
  def clock(session: SparkSession, runId: String): RunClock =
    active(session).find(_.runId.toString == runId).fold[RunClock](RunClock.System)(RunClock.of)

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

/** The time of one run of a query, on the driver. It is the clock that Spark has started the query with, so two queries of a
  * JVM may have different ones: a test gives its query a clock that it moves ([[ClockedQuery]]), and no other query sees it.
  */
trait RunClock {

  /** Measures durations. It never goes back, and is no time of the day. */
  def nanos: Long

  /** The same in milliseconds. */
  final def ms: Long = nanos / 1000000

  /** Milliseconds since 1970, the time that micro-batches are stamped with. */
  def wallMs: Long
}

object RunClock {

  /** The clock of all queries outside of tests. */
  object System extends RunClock {
    override def nanos: Long = java.lang.System.nanoTime
    override def wallMs: Long = java.lang.System.currentTimeMillis
  }

  private[tailrace] def of(execution: StreamExecution): RunClock = new RunClock {
    private val clock = execution.triggerClock
    override def nanos: Long = clock.nanoTime()
    override def wallMs: Long = clock.getTimeMillis()
  }
}

/** A clock that doesn't wait while there is something to do. */
private final class ImpatientClock(clock: Clock, isWaiting: () => Boolean) extends Clock {
  override def getTimeMillis(): Long = clock.getTimeMillis()
  override def nanoTime(): Long = clock.nanoTime()
  override def waitTillTime(targetTime: Long): Long =
    if (isWaiting()) clock.getTimeMillis() else clock.waitTillTime(targetTime)
}

/** The micro-batch that this thread plans or runs.
  *
  * @param queryId the same over all starts of the query
  * @param runId   of one start
  * @param clockMs the time of the query's clock when the batch was made; the same when it runs again
  * @param watermarkMs         the query's watermark in Spark; 0: none yet
  * @param previousWatermarkMs the watermark of the batch before
  */
final case class StreamingBatch(
    queryId: String,
    runId: String,
    batchId: Long,
    checkpointRoot: String,
    clockMs: Long,
    watermarkMs: Long,
    previousWatermarkMs: Long
)

/** @param plan with the nodes whose tasks have run
  * @param sink that has received its rows
  * @param name of the query, if its user has named it
  */
final case class RunningBatch(plan: SparkPlan, sink: Table, name: Option[String]) {

  /** True if Spark hands the rows to the sink, which may leave them unread. Other sinks are in the plan. */
  def sinkMaySkip: Boolean = sink.isInstanceOf[Sink]
}

object StreamingBatch {

  /** Spark keeps the batch's number in the thread's local properties. */
  def current(session: SparkSession): StreamingBatch = {
    val execution = StreamingRun.execution(session)
    val id = session.sparkContext.getLocalProperty(MicroBatchExecution.BATCH_ID_KEY)
    require(id != null, s"no micro-batch runs in this thread: ${MicroBatchExecution.BATCH_ID_KEY} is not set")
    val batchId = id.toLong
    val running = execution.lastExecution
    require(running.currentBatchId == batchId, s"$batchId is planned, and ${running.currentBatchId} runs")
    StreamingBatch(
      execution.id.toString,
      execution.runId.toString,
      batchId,
      execution.resolvedCheckpointRoot,
      running.offsetSeqMetadata.batchTimestampMs,
      running.offsetSeqMetadata.batchWatermarkMs,
      running.prevOffsetSeqMetadata.fold(0L)(_.batchWatermarkMs)
    )
  }

  /** The micro-batch that the query of this thread runs, or has just run. */
  def running(session: SparkSession): RunningBatch = {
    val execution = StreamingRun.execution(session)
    RunningBatch(execution.lastExecution.executedPlan, execution.sink, Option(execution.name))
  }

  /** Runs the operators of this thread's batch, and drops the rows that are emitted. */
  def runThrough(session: SparkSession): Unit = {
    val batch = StreamingRun.execution(session).lastExecution
    SQLExecution.withNewExecutionId(batch) {
      batch.toRdd.foreachPartition((rows: Iterator[InternalRow]) => rows.foreach(_ => ()))
    }
  }
}

/** An operator's decisions about a micro-batch before it began, in the batch's entry of Spark's offset log. Spark
  * writes both at once: a batch that runs again has the same notes, and a batch that was never logged has none.
  *
  * {{{
  *   offsets/17   v1 | {"batchWatermarkMs": ..., "conf": {..., "tailrace.closed.tailraceLabelJoin-0": "17 1767268800000000"}}
  * }}}
  *
  * A note is stored among the entry's settings, because Spark offers no other place. Spark reads only the settings
  * that it knows, and copies the settings of one batch to the next ones of a run. So a note begins with the number of
  * its batch.
  */
object BatchNotes {

  /** Notes something about the batch that Spark is making. To be called while it asks whether the batch is needed. */
  def add(session: SparkSession, key: String, value: String): Unit = {
    val making = StreamingRun.execution(session).getLatestExecutionContext()
    val metadata = making.offsetSeqMetadata
    making.offsetSeqMetadata =
      OffsetEntry.withConf(metadata, metadata.conf + (key -> s"${making.batchId} $value"))
  }

  /** The notes of a batch whose entry is in the log, or of the last batch before it that has some. */
  def latest(session: SparkSession, batchId: Long, key: String): Option[String] = {
    val log = StreamingRun.execution(session).offsetLog
    Iterator
      .iterate(batchId)(_ - 1)
      .takeWhile(batch => batch >= 0 && (batch == batchId || log.get(batch).isDefined))
      .map(of(session, _, key))
      .collectFirst { case Some(note) => note }
  }

  /** The notes of a batch whose entry is in the log. */
  def of(session: SparkSession, batchId: Long, key: String): Option[String] =
    StreamingRun
      .execution(session)
      .offsetLog
      .get(batchId)
      .flatMap(OffsetEntry.metadata)
      .flatMap(_.conf.get(key))
      .map(_.split(" ", 2))
      .collect { case Array(batch, value) if batch == batchId.toString => value }
}

/** A streaming query that is being started, as its writer describes it. */
final class QueryStart private (statement: WriteToStreamStatement) {

  /** The query, without its sink. */
  def plan: LogicalPlan = statement.inputQuery

  def outputMode: String = statement.outputMode.toString
  def appends: Boolean = statement.outputMode == OutputMode.Append

  def isRealTime: Boolean = statement.trigger.isInstanceOf[RealTimeTrigger]
  def isContinuous: Boolean = statement.trigger.isInstanceOf[ContinuousTrigger]

  /** True if Spark makes micro-batches without new data, where operators ask for them. */
  def runsWithoutData: Boolean = SQLConf.get.streamingNoDataMicroBatchesEnabled

  /** True if each stateful operator has a watermark of its own: `spark.sql.streaming.statefulOperator.allowMultiple`. */
  def hasWatermarkPerOperator: Boolean = SQLConf.get.getConf(SQLConf.STATEFUL_OPERATOR_ALLOW_MULTIPLE)

  def sink: Table = statement.sink

  /** False if the sink keeps rows in this process only, and the query can't resume. */
  def resumes: Boolean = statement.recoverFromCheckpointLocation

  /** The sink's name in an error. A [[Sink]] has none. */
  def sinkName: String = sink match {
    case old: Sink => old.toString
    case table => table.name
  }

  def hadoopConf: Configuration = statement.hadoopConf

  /** The directory of the checkpoint, for checks that read what an earlier start has left there.
    *
    * @return none for a query without a checkpoint that stays
    */
  def checkpoint: Option[Path] = {
    val roots = SQLConf.get.checkpointLocation
    def ofSession = roots.zip(statement.userSpecifiedName).map { case (root, name) => new Path(root, name) }
    val path = statement.userSpecifiedCheckpointLocation.map(new Path(_)).orElse(ofSession)
    path.map(p => p.getFileSystem(hadoopConf).makeQualified(p))
  }

  /** True if `spark.sql.streaming.multipleWatermarkPolicy` makes the query follow the latest watermark. */
  def followsLatestWatermark: Boolean =
    SQLConf.get.getConf(SQLConf.STREAMING_MULTIPLE_WATERMARK_POLICY).equalsIgnoreCase("max")
}

object QueryStart {
  def unapply(plan: LogicalPlan): Option[QueryStart] = plan match {
    case statement: WriteToStreamStatement => Some(new QueryStart(statement))
    case _ => None
  }
}
