package io.tailrace.replay

import java.util.{LinkedHashMap, Map => JMap}

/** What is known of each filter that runs in this JVM, so that a batch reads only what the last one has moved. Tables are
  * never changed once they are here, so that a task that was replaced judges as its successor does.
  */
object MarkCache {
  private val MostFilters = 64

  private final class Newest {
    var table: Option[(Long, MarkTable)] = None
    @volatile var files: Option[MarkFiles] = None
    var forgottenBefore = Long.MinValue
    val notices = new ReplayNotices
  }

  private val filters = new LinkedHashMap[String, Newest](16, 0.75f, true) {
    override def removeEldestEntry(eldest: JMap.Entry[String, Newest]): Boolean = size > MostFilters
  }

  /** The marks that a batch begins with.
    *
    * @param filter names one filter of one run of a query: another run may begin from another checkpoint
    */
  def get(filter: String, wanted: MarkFiles, log: => MarkLog): MarkTable = {
    val newest = of(filter)
    // One task reads, the others of the batch wait for it.
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

  /** The files that the last batch of a filter has begun with, for [[MarkLog.before]]. */
  def files(filter: String): Option[MarkFiles] = of(filter).files

  def remember(filter: String, files: MarkFiles): Unit = of(filter).files = Some(files)

  /** What has been told of a filter, on the driver. */
  def notices(filter: String): ReplayNotices = of(filter).notices

  /** Notes up to when a filter has forgotten its origins. @return what it was: what lies between is news */
  def forget(filter: String, before: Long): Long = {
    val newest = of(filter)
    newest.synchronized {
      val known = newest.forgottenBefore
      newest.forgottenBefore = Math.max(known, before)
      known
    }
  }

  private def of(filter: String): Newest =
    filters.synchronized(filters.computeIfAbsent(filter, (_: String) => new Newest))
}
