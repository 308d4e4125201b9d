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
