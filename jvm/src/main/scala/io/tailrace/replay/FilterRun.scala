package io.tailrace.replay

import java.time.Instant

import org.apache.hadoop.fs.Path
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.internal.Logging
import org.apache.spark.sql.tailrace.{SparkSession, StreamingBatch}

import io.tailrace.driver.RunState

/** The driver's state of one filter in one run of a query.
  *
  * @param name      in [[MarkCache]]
  * @param directory in the checkpoint
  */
private[replay] final class FilterRun(val name: String, val directory: Path) extends Logging {

  // The last batch that this run has done: the files of the next one, its marks, and what it has moved.
  private var last = Option.empty[(MarkFiles, MarkTable, Option[Broadcast[Array[Byte]]])]

  private def doneBefore(batch: Long) = last.filter(_._1.batch == batch)

  /** The files and the marks that a batch begins with. If this run has done the batch before, nothing is read.
    */
  def begin(batch: Long, log: MarkLog): (MarkFiles, MarkTable) = synchronized {
    val files = doneBefore(batch) match {
      case Some((files, marks, _)) =>
        // Not when a batch is done: tasks of that batch may still begin, and need the marks before it.
        MarkCache.put(name, batch - 1, marks)
        files
      case None => log.before(batch)
    }
    files -> MarkCache.get(name, files, log)
  }

  /** Writes the marks of a batch that is done, once.
    *
    * @param begun the files that the batch has begun with
    * @param send  sends the bytes of its file to the executors
    */
  def end(begun: MarkFiles, log: MarkLog, marks: MarkTable, tables: Seq[Array[Byte]])(
      send: Array[Byte] => Option[Broadcast[Array[Byte]]]
  ): Unit = synchronized {
    if (!last.exists(_._1.batch > begun.batch)) {
      val bytes = log.write(begun.batch, tables)
      last = Some((begun.next, marks, send(bytes)))
    }
  }

  /** The marks that the previous batch has moved, if this run has executed it and executors are remote. Spark
    * removes them when no batch refers to them.
    */
  def movedBefore(batch: Long): Option[Broadcast[Array[Byte]]] = synchronized(doneBefore(batch).flatMap(_._3))

  /** The notices that the user has got. */
  val notices = new ReplayNotices

  private var forgottenBefore = Long.MinValue

  /** Counts the origins that a batch forgets and the batch before it did not. Logs them, because a replay of
    * their records would pass.
    *
    * @param marks  the marks before the batch
    * @param before origins that were last seen before this time, in ms, are forgotten
    */
  def forget(marks: MarkTable, before: Long, settings: ReplaySettings): Long = synchronized {
    val forgotten = Iterator
      .range(0, marks.size)
      .filter(e => marks.isBefore(e, before) && marks.lastSeenMs(e) >= forgottenBefore)
      .toArray
    forgottenBefore = Math.max(forgottenBefore, before)
    if (forgotten.nonEmpty) {
      val named = forgotten.take(FilterRun.MostNamed).map { e =>
        s"producer ${marks.pid(e)}, partition ${marks.partition(e)}, mark ${marks.mark(e)}, " +
          s"last seen ${Instant.ofEpochMilli(marks.lastSeenMs(e))}"
      }
      logWarning(
        s"TAILRACE_REPLAY_FORGOTTEN: the filter ${settings.name} in $directory has forgotten " +
          s"${forgotten.length} origins without a record for forget_after = " +
          s"${settings.forgetAfterMs.getOrElse(0L)} ms. If an origin comes back, its first record passes " +
          s"unjudged, and is counted as returned. ${named.mkString("; ")}" +
          (if (forgotten.length > FilterRun.MostNamed) "; ..." else "")
      )
    }
    forgotten.length.toLong
  }
}

private[replay] object FilterRun {

  /** The most origins that a log line names. */
  private val MostNamed = 10

  private val runs = new RunState[FilterRun](run => MarkCache.drop(run.name))

  def of(session: SparkSession, batch: StreamingBatch, filter: String): FilterRun =
    runs.of(session, batch.runId, filter) {
      val directory = new Path(new Path(batch.checkpointRoot, MarkLog.Root), filter)
      new FilterRun(s"${batch.runId}/$directory", directory)
    }
}

/** Something about a filter's records that a user must be told once.
  *
  * @param text what follows "the filter NAME has read from PLACE"
  */
private[replay] final case class ReplayNotice(bit: Int, name: String, text: String)

private[replay] object ReplayNotices {
  val Doubtful: ReplayNotice = ReplayNotice(
    1,
    "TAILRACE_REPLAY_DOUBTFUL",
    "a record whose key is as long as metadata but isn't metadata. Such records pass unfiltered, and are " +
      "counted as doubtful and unprotected. Is `key` the column that stream_metadata has made?"
  )
  val Untagged: ReplayNotice = ReplayNotice(
    2,
    "TAILRACE_REPLAY_UNTAGGED",
    "a record whose 20 bytes are taken for metadata of the older form, which has no tag. Other keys of 20 " +
      "bytes that look like it would be dropped. Write the records with the stream_metadata of this " +
      "version, or make sure that all keys of 20 bytes are metadata"
  )
  val Moved: ReplayNotice = ReplayNotice(
    4,
    "TAILRACE_REPLAY_MOVED",
    "records of an origin that were read from another partition before. Have the destination's partitions " +
      "been changed? All earlier records must be read first"
  )
  val FromStart: ReplayNotice = ReplayNotice(
    8,
    "TAILRACE_REPLAY_FROM_START",
    "a record of offset 0 of an origin that was further on, and dropped it as a replay. If the producer's " +
      "source was created again under its name, its records are dropped until their offsets pass the old " +
      "ones: give producer_id another epoch"
  )

  val all: Seq[ReplayNotice] = Seq(Doubtful, Untagged, Moved, FromStart)
}

/** Logs each notice once in a run of a query. */
private[tailrace] final class ReplayNotices extends Logging {
  private var told = 0

  def tell(notice: ReplayNotice, filter: String, place: String): Unit = synchronized {
    if ((told & notice.bit) == 0) {
      told |= notice.bit
      logWarning(s"${notice.name}: the filter $filter has read from $place ${notice.text}.")
    }
  }
}
