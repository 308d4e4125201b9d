package io.tailrace.common

/** Every `spark.tailrace.*` key. They are read from the session when a query is planned and travel to the executors with
  * the operator; none of them changes the meaning of a checkpoint, so each can be changed between two runs.
  */
object TailraceConf {

  /** Bytes of rows that a task holds for one side of a join before it writes them out as a sorted run, and bytes of
    * expiring rows and their matches that it works on at a time. Larger: fewer runs to merge; smaller: less memory.
    */
  val BATCH_BUFFER_BYTES = "spark.tailrace.state.batchBufferBytes"
  val BATCH_BUFFER_BYTES_DEFAULT: Long = 64L << 20

  /** Time buckets in the time that a row stays: a bucket is dropped whole when its last row has expired. */
  val BUCKETS_PER_WINDOW = "spark.tailrace.state.bucketsPerWindow"
  val BUCKETS_PER_WINDOW_DEFAULT = 4

  /** Bytes of the RocksDB block cache that all stores of an executor share. Takes effect when the executor starts. */
  val BLOCK_CACHE_BYTES = "spark.tailrace.state.blockCacheBytes"
  val BLOCK_CACHE_BYTES_DEFAULT: Long = 128L << 20
}
