package org.apache.spark.sql.tailrace

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.connector.catalog.Table
import org.apache.spark.sql.execution.streaming.Sink
import org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution
import org.apache.spark.sql.execution.{SQLExecution, SparkPlan}

/** The micro-batch that is being planned or run in this thread.
  *
  * @param queryId the query, over all its starts
  * @param runId   one start of it
  * @param clockMs when the batch was made, by the query's clock; the same when it runs again
  * @param watermarkMs         Spark's, of the query: what the batch closes; 0: none yet
  * @param previousWatermarkMs what the batch before it closed
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
  * @param sink where its rows went
  */
final case class RunningBatch(plan: SparkPlan, sink: Table) {

  /** Whether the sink is one that Spark hands the batch to. With others the plan ends in what they write, and always runs. */
  def sinkMaySkip: Boolean = sink.isInstanceOf[Sink]
}

object StreamingBatch {

  /** Spark keeps the batch in the thread's local properties, beside the query. */
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
    RunningBatch(execution.lastExecution.executedPlan, execution.sink)
  }

  /** Has the operators of the batch of this thread do their part; its rows go nowhere. */
  def runThrough(session: SparkSession): Unit = {
    val batch = StreamingRun.execution(session).lastExecution
    SQLExecution.withNewExecutionId(batch) {
      batch.toRdd.foreachPartition((rows: Iterator[InternalRow]) => rows.foreach(_ => ()))
    }
  }

  /** The starts of queries that are running. */
  def activeRuns(session: SparkSession): Set[String] =
    session.sharedState.activeStreamingQueries.values.asScala.map(_.runId.toString).toSet
}
