package org.apache.spark.sql.tailrace

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.catalog.Table
import org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution
import org.apache.spark.sql.execution.{SQLExecution, SparkPlan}

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
