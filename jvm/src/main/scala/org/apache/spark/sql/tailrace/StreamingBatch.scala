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
