package io.tailrace.recursion

import org.apache.spark.internal.Logging

/** Warns of a recursion that has no limit and goes on for long, in hops or in rows: it may not end, and nobody would know why
  * the micro-batch takes so long. One for the rows that are counted together, each threshold once.
  */
private[recursion] final class RunawayWatch(settings: RecursionSettings) extends Logging {
  import RunawayWatch._

  private var hops: Long = settings.maxDepth.fold(Hops)(_ => Long.MaxValue)
  private var rows: Long = settings.maxRows.fold(Rows)(_ => Long.MaxValue)

  /** @param sample a row that goes round, as text */
  def look(depth: Int, seen: Long, sample: => String): Unit = {
    val more = if (depth >= hops) Some(s"$depth hops") else Option.when(seen >= rows)(s"$seen rows")
    more.foreach { much =>
      while (depth >= hops) hops *= Factor
      while (seen >= rows) rows *= Factor
      logWarning(
        s"TAILRACE_RECURSION_LONG: the recursion '${settings.name}' has made $much of a micro-batch's rows, and goes on, " +
          s"for instance with $sample. If that is a loop: max_depth and max_rows end it, path_columns finds cycles"
      )
    }
  }
}

private object RunawayWatch {
  private val Hops = 1000L
  private val Rows = 10L * 1000 * 1000
  private val Factor = 10
}

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
