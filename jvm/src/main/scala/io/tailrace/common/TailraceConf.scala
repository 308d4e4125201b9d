package io.tailrace.common

/** Every `spark.tailrace.*` key. They are read from the session when a query is planned and travel to the executors with
  * the operator; none of them changes the meaning of a checkpoint, so each can be changed between two runs.
  */
object TailraceConf {

  /** Bytes of rows that a task holds for one side of a join before it writes them out as a sorted run, and bytes of
    * expiring rows that it works on at a time. Larger: fewer runs to merge; smaller: less memory.
    */
  val BatchBufferBytes: NumberEntry =
    new NumberEntry("spark.tailrace.state.batchBufferBytes", 64L << 20, least = 1, most = 1L << 40)

  /** Time buckets in the time that a row stays: a bucket is dropped whole when its last row has expired. */
  val BucketsPerWindow: NumberEntry =
    new NumberEntry("spark.tailrace.state.bucketsPerWindow", 4, least = 1, most = 1000)

  /** Bytes of the RocksDB block cache that all stores of an executor share. Takes effect when the executor starts. */
  val BlockCacheBytes: NumberEntry =
    new NumberEntry("spark.tailrace.state.blockCacheBytes", 128L << 20, least = 0, most = 1L << 40)

  /** Runs of about the same size that are merged into one, off the hot path. Fewer: fewer files to merge with at expiry;
    * more: rows are written again less often.
    */
  val CompactionRuns: NumberEntry =
    new NumberEntry("spark.tailrace.state.compactionRuns", 32, least = 2, most = 1000)

  val all: Seq[NumberEntry] = Seq(BatchBufferBytes, BucketsPerWindow, BlockCacheBytes, CompactionRuns)

  /** @throws org.apache.spark.sql.AnalysisException TAILRACE_CONF_INVALID if a key that is set makes no sense */
  def check(get: String => Option[String]): Unit = all.foreach(_.read(get))
}

/** A key whose value is a whole number from `least` to `most`. */
final class NumberEntry(val key: String, val default: Long, least: Long, most: Long) {

  /** @param get the value that is set for a key, if one is */
  def read(get: String => Option[String]): Long = get(key).fold(default) { text =>
    text.trim.toLongOption
      .filter(value => value >= least && value <= most)
      .getOrElse(throw Errors.confInvalid(key, text, s"a whole number from $least to $most"))
  }
}
