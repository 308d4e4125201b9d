package io.tailrace.replay

import org.apache.spark.internal.Logging

/** Something about a filter's records that a user must be told once.
  *
  * @param text what follows "the filter NAME has read from PLACE"
  */
private[replay] final case class ReplayNotice(bit: Int, name: String, text: String)

private[replay] object ReplayNotices {
  val Doubtful: ReplayNotice = ReplayNotice(
    1,
    "TAILRACE_REPLAY_DOUBTFUL",
    "a record whose key is as long as metadata but isn't metadata. Such records pass unfiltered, and are counted " +
      "as doubtful and unprotected. Is `key` the column that stream_metadata has made?"
  )
  val Untagged: ReplayNotice = ReplayNotice(
    2,
    "TAILRACE_REPLAY_UNTAGGED",
    "a record whose 20 bytes are taken for metadata of the older form, which has no tag. Other keys of 20 bytes that look " +
      "like it would be dropped. Write the records with the stream_metadata of this version, or make sure that all keys " +
      "of 20 bytes are metadata"
  )
  val Moved: ReplayNotice = ReplayNotice(
    4,
    "TAILRACE_REPLAY_MOVED",
    "records of an origin that were read from another partition before. Have the destination's partitions been changed? " +
      "All earlier records must be read first"
  )
  val FromStart: ReplayNotice = ReplayNotice(
    8,
    "TAILRACE_REPLAY_FROM_START",
    "a record of offset 0 of an origin that was further on, and dropped it as a replay. If the producer's source was " +
      "created again under its name, its records are dropped until their offsets pass the old ones: give producer_id " +
      "another epoch"
  )

  val all: Seq[ReplayNotice] = Seq(Doubtful, Untagged, Moved, FromStart)
}

/** Logs each notice once in a run of a query. */
private[replay] final class ReplayNotices extends Logging {
  private var told = 0

  def tell(notice: ReplayNotice, filter: String, place: String): Unit = synchronized {
    if ((told & notice.bit) == 0) {
      told |= notice.bit
      logWarning(s"${notice.name}: the filter $filter has read from $place ${notice.text}.")
    }
  }
}

/** The origins that are forgotten in a batch, and were not before it.
  *
  * @param marks  the marks before the batch
  * @param from   origins last seen before this time were forgotten before the batch, in ms
  * @param before origins last seen before this time are forgotten now
  */
private[replay] final class ForgottenOrigins(marks: MarkTable, from: Long, before: Long) extends Logging {
  private def entries: Iterator[Int] =
    Iterator.range(0, marks.size).filter(e => marks.isBefore(e, before) && marks.lastSeenMs(e) >= from)

  def count: Long = entries.size.toLong

  /** Logs which origins have no mark any more: a replay of their records would pass. */
  def report(directory: String, settings: ReplaySettings): Unit = if (entries.nonEmpty) {
    val named = entries.take(ForgottenOrigins.Named).map { e =>
      s"producer ${marks.pid(e)}, partition ${marks.partition(e)}, mark ${marks.mark(e)}, " +
        s"last seen ${java.time.Instant.ofEpochMilli(marks.lastSeenMs(e))}"
    }
    logWarning(
      s"TAILRACE_REPLAY_FORGOTTEN: the filter ${settings.name} in $directory has forgotten $count origins without a " +
        s"record for forget_after = ${settings.forgetAfterMs.getOrElse(0L)} ms. If an origin comes back, its first " +
        s"record passes unjudged, and is counted as returned. ${named.mkString("; ")}" +
        (if (count > ForgottenOrigins.Named) "; ..." else "")
    )
  }
}

private object ForgottenOrigins {

  /** The most origins that a log line names. */
  val Named = 10
}
