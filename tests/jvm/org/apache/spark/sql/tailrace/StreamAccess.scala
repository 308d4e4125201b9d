package org.apache.spark.sql.tailrace

import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.streaming.runtime.{MicroBatchExecution, StreamingQueryWrapper}
import org.apache.spark.sql.streaming.StreamingQuery

/** What the stream harness needs of Spark that Spark keeps to itself. */
object StreamAccess {

  private def execution(query: StreamingQuery): MicroBatchExecution =
    query.asInstanceOf[StreamingQueryWrapper].streamingQuery.asInstanceOf[MicroBatchExecution]

  /** Runs `body` while no batch is being planned: what it adds to several sources is one batch. */
  def betweenBatches(query: StreamingQuery)(body: => Unit): Unit = execution(query).withProgressLocked(body)

  /** What the batch that ran last was run as. */
  def executedPlan(query: StreamingQuery): SparkPlan = execution(query).lastExecution.executedPlan

  /** The watermark of the batch that ran last, in milliseconds. */
  def watermarkMs(query: StreamingQuery): Long =
    execution(query).lastExecution.offsetSeqMetadata.batchWatermarkMs
}
