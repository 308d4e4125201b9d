package io.tailrace.progress

/** Spark's watermark out of a low watermark. A row at Spark's is late, one at ours isn't. */
private[progress] object SparkWatermark {

  /** The last whole millisecond before a time.
    *
    * @param low microseconds
    */
  def before(low: Long): Long = Math.floorDiv(low - 1, 1000L)
}
