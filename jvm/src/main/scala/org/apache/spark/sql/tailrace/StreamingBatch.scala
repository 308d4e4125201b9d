package org.apache.spark.sql.tailrace

import java.util.UUID

import org.apache.spark.sql.classic.SparkSession

/** The micro-batch that is being planned or run in this thread.
  *
  * @param runId       one start of the query
  * @param timestampMs when the batch was begun: from its log, so the same when it runs again
  */
final case class StreamingBatch(runId: String, batchId: Long, timestampMs: Long, checkpointRoot: String)

object StreamingBatch {

  /** Spark keeps query and batch in the thread's local properties, and hands them on to threads that plan for it. */
  def current(session: SparkSession): StreamingBatch = {
    def property(name: String): String = {
      val value = session.sparkContext.getLocalProperty(name)
      require(value != null, s"no streaming query runs in this thread: $name is not set")
      value
    }
    val query = UUID.fromString(property("sql.streaming.queryId"))
    val execution = session.sharedState.activeStreamingQueries.get(query)
    require(execution != null, s"the query $query isn't active")
    StreamingBatch(
      execution.runId.toString,
      property("streaming.sql.batchId").toLong,
      execution.lastExecution.offsetSeqMetadata.batchTimestampMs,
      execution.resolvedCheckpointRoot
    )
  }
}
