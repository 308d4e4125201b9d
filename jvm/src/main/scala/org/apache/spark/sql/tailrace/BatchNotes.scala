package org.apache.spark.sql.tailrace

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
