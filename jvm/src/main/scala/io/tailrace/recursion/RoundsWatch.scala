package io.tailrace.recursion

import org.apache.spark.internal.Logging

/** Warns when rows of a recursion that takes a micro-batch a hop have gone round for long without a pause. A stream that never
  * rests has rows going round all the time, so that is no error.
  */
private[recursion] final class RoundsWatch(settings: RecursionSettings) extends Logging {
  private var last = -1L
  private var batches = 0L
  private var threshold = RoundsWatch.Batches

  def rest(): Unit = batches = 0

  /** A batch has fed rows back. Spark may ask about it more than once. */
  def of(batch: Long): Unit = if (batch != last) {
    last = batch
    batches += 1
    if (batches >= threshold) {
      threshold *= 10
      logWarning(
        s"TAILRACE_RECURSION_LONG: rows of the recursion '${settings.name}' have gone round in $batches micro-batches in a " +
          "row. If the input alone doesn't explain it, that is a loop: max_depth ends it, path_columns finds cycles"
      )
    }
  }
}

private object RoundsWatch {
  private val Batches = 1000L
}
