package io.tailrace.replay

import java.util.{LinkedHashMap, Map => JMap}

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.tailrace.StreamingBatch

import io.tailrace.driver.RunState

/** The newest marks of each filter in this JVM, driver or executor, so that a batch reads only what the batch
  * before it has moved. A table that is here is never changed, so a task that was replaced judges as its
  * successor does.
  */
object MarkCache {

  /** The bound for executors, which aren't told when a query ends. */
  private val MostFilters = 64

  private final class Newest {
    var table: Option[(Long, MarkTable)] = None
  }

  private val filters = new LinkedHashMap[String, Newest](16, 0.75f, true) {
    override def removeEldestEntry(eldest: JMap.Entry[String, Newest]): Boolean = this.size > MostFilters
  }

  /** The marks that a batch begins with.
    *
    * @param filter names one filter of one run of a query: another run may begin from another checkpoint
    */
  def get(filter: String, wanted: MarkFiles, log: => MarkLog): MarkTable = {
    val newest = filters.synchronized(filters.computeIfAbsent(filter, (_: String) => new Newest))
    // One task reads, and the other tasks of the batch wait for it.
    newest.synchronized {
      newest.table match {
        case Some((batch, table)) if batch == wanted.batch - 1 => table
        case known =>
          val table = log.load(wanted, known)
          // A late task of an earlier batch must not push out what its successors need.
          if (known.forall(_._1 < wanted.batch - 1)) newest.table = Some((wanted.batch - 1) -> table)
          table
      }
    }
  }

  def drop(filter: String): Unit = filters.synchronized(filters.remove(filter): Unit)

  private[tailrace] def size: Int = filters.synchronized(filters.size)
}

/** The driver's state of one filter in one run of a query.
  *
  * @param name      in [[MarkCache]]
  * @param directory in the checkpoint
  */
private[replay] final class FilterRun(val name: String, val directory: Path) {

  /** The files that the last batch has begun with, for [[MarkLog.before]]. */
  @volatile var files: Option[MarkFiles] = None

  /** The notices that the user has got. */
  val notices = new ReplayNotices

  private var forgottenBefore = Long.MinValue

  /** Notes up to when origins are forgotten. @return the time before: what was last seen between the two is
    * news
    */
  def forget(before: Long): Long = synchronized {
    val known = forgottenBefore
    forgottenBefore = Math.max(known, before)
    known
  }
}

private[replay] object FilterRun {
  private val runs = new RunState[FilterRun](run => MarkCache.drop(run.name))

  def of(session: SparkSession, batch: StreamingBatch, filter: String): FilterRun =
    runs.of(session, batch.runId, filter) {
      val directory = new Path(new Path(batch.checkpointRoot, "tailrace-replay"), filter)
      new FilterRun(s"${batch.runId}/$directory", directory)
    }
}
