package io.tailrace.sync

/** One source partition. */
private[sync] final class SourcePartition(val name: String) {

  /** The greatest event time that has been read of it. */
  var latest: Long = SyncTimes.Unknown

  /** For how long no row of it has come while others went on. */
  var silentMs: Long = SidePartitions.NotSilent

  /** Whether nobody waits for it. */
  var excluded = false

  /** Whether the last batch has had a row of it. */
  var isReading = false

  /** Records that the source has of it, and the query hasn't read; none: nobody knows. */
  var unread: Option[Long] = None

  /** Whether the query doesn't read it just now. */
  var isHeldBack = false
}

/** What is kept of a partition in the checkpoint.
  *
  * @param latest   microseconds
  * @param silentMs -1: the last batch has had rows of it
  */
private[sync] final case class PartitionState(name: String, latest: Long, silentMs: Long, excluded: Boolean)

/** What a batch has read of a partition.
  *
  * @param latest  the greatest event time, in microseconds
  * @param rows    with an event time
  * @param jumps   those that were more than the sync delay behind the greatest before them
  * @param late    those that came after what would have joined them had been decided
  */
private[sync] final case class PartitionRead(name: String, latest: Long, rows: Long, jumps: Long, late: Long)

/** A partition that a source has.
  *
  * @param unread     records that the query hasn't read; none: nobody knows
  * @param isHeldBack whether the query doesn't read it just now
  */
private[sync] final case class ListedPartition(
    name: String,
    unread: Option[Long] = None,
    isHeldBack: Boolean = false
)
