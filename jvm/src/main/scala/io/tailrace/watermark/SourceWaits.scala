package io.tailrace.watermark

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import io.tailrace.checkpoint.DurableFiles
import io.tailrace.driver.{SourceFacts, SparkWatermark}

/** The hosts that hold a query back, by its checkpoint. */
private[tailrace] object SourceWaits {

  /** The number of hosts that are named. */
  val Named = 5

  /** All sources of a query, after a batch. The checkpoint has neither their completeness nor a server. */
  def in(checkpoint: Path, conf: Configuration, batch: Long): Seq[SourceFacts] = {
    val all = new Path(checkpoint, ProgressLog.Root)
    val sources = DurableFiles.in(all, conf).list(all).filter(_.isDirectory).map(_.getPath).sortBy(_.getName)
    sources.flatMap { directory =>
      new ProgressLog(directory, conf, beginsAnew = false).after(batch).map { case (low, table) =>
        of(directory.getName, low, table, 0 until table.size, server = None)
      }
    }
  }

  /** @param hosts numbers of those that count
    * @param low   their low watermark
    */
  def of(
      name: String,
      low: Long,
      table: HostTable,
      hosts: Seq[Int],
      server: Option[Boolean]
  ): SourceFacts = {
    val (unseen, seen) = hosts.partition(table.time(_) == SparkWatermark.Never)
    // The slowest of all, and the slowest that are waited for.
    val (passedBy, waited) = seen.sortBy(table.time).partition(table.time(_) < low)
    SourceFacts(
      name,
      Option.when(low != SparkWatermark.Never)(low),
      hosts.size,
      unseen.take(Named).map(table.name) -> unseen.size,
      (passedBy.take(Named) ++ waited.take(Named)).map(host => table.name(host) -> table.time(host)),
      server
    )
  }
}
