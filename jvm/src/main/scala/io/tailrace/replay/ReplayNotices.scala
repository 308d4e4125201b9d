package io.tailrace.replay

import org.apache.spark.internal.Logging

/** Something about the records of a filter that a user ought to hear of once.
  *
  * @param text what follows "the filter NAME has read from PLACE"
  */
private[replay] final case class ReplayNotice(bit: Int, name: String, text: String)

private[replay] object ReplayNotices {
  val Doubtful: ReplayNotice = ReplayNotice(
    1,
    "TAILRACE_REPLAY_DOUBTFUL",
    "a record that carries something as long as metadata, which it isn't. Such records pass unfiltered, and are counted " +
      "as doubtful and unprotected. Is `key` the column that stream_metadata has made?"
  )
  val Untagged: ReplayNotice = ReplayNotice(
    2,
    "TAILRACE_REPLAY_UNTAGGED",
    "a record whose 20 bytes are taken for metadata of the older form, which has no tag: records whose keys are 20 other " +
      "bytes that look like it would be dropped. Write them with the stream_metadata of this version, or make sure that " +
      "all keys of 20 bytes are its"
  )
  val Moved: ReplayNotice = ReplayNotice(
    4,
    "TAILRACE_REPLAY_MOVED",
    "records of an origin that were read from another partition before. Have the destination's partitions been changed? " +
      "All that was written before has to be read first"
  )
  val FromStart: ReplayNotice = ReplayNotice(
    8,
    "TAILRACE_REPLAY_FROM_START",
    "a record of offset 0 of an origin that was further on, and dropped it as a replay. If the producer's source was made " +
      "anew under its name, its records are dropped until they are as far as the old ones were: give producer_id another epoch"
  )

  val all: Seq[ReplayNotice] = Seq(Doubtful, Untagged, Moved, FromStart)
}

/** Tells each notice once in a run of a query. */
private[replay] final class ReplayNotices extends Logging {
  private var told = 0

  def tell(notice: ReplayNotice, filter: String, place: String): Unit = synchronized {
    if ((told & notice.bit) == 0) {
      told |= notice.bit
      logWarning(s"${notice.name}: the filter $filter has read from $place ${notice.text}.")
    }
  }
}
