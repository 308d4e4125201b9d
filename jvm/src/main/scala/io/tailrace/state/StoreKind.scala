package io.tailrace.state

/** The stores that an operator's state consists of. A time-sorted store is scanned from the oldest row on (what expires
  * next?), by time and sequence number; a key-sorted one is merged with rows sorted by key (what matches?). A
  * joined-indicator store holds matches already found, under the time and sequence number of their left rows.
  *
  * The last three are a synced join's: rows leave them one by one, so its runs are not compacted in the background, and
  * which rows of held-right have left is written down in joined-right.
  *
  * @param id       the first byte of each of its pages' keys in a run; never reused
  * @param name     what metrics, errors and the state reader call it
  * @param compacts whether background compaction may merge its sections
  * @param hasRows  whether what it holds are rows, and not marks about rows of another store
  */
// No default arguments: they are the companion's, which lists the kinds. Whichever kind is asked for first would have it made
// while that kind isn't there yet.
sealed abstract class StoreKind(
    val id: Byte,
    val name: String,
    val timeSorted: Boolean,
    val compacts: Boolean,
    val hasRows: Boolean
)

object StoreKind {
  case object LeftTimeSorted
      extends StoreKind(1, "left-time-sorted", timeSorted = true, compacts = true, hasRows = true)
  case object LeftKeySorted
      extends StoreKind(2, "left-key-sorted", timeSorted = false, compacts = true, hasRows = true)
  case object RightKeySorted
      extends StoreKind(3, "right-key-sorted", timeSorted = false, compacts = true, hasRows = true)
  case object JoinedIndicator
      extends StoreKind(4, "joined-indicator", timeSorted = true, compacts = true, hasRows = true)
  case object HeldLeft extends StoreKind(5, "held-left", timeSorted = true, compacts = false, hasRows = true)
  case object HeldRight
      extends StoreKind(6, "held-right", timeSorted = false, compacts = false, hasRows = true)

  /** The sequence numbers of rows that have left held-right; their time is the version whose run the row is in. */
  case object JoinedRight
      extends StoreKind(7, "joined-right", timeSorted = true, compacts = false, hasRows = false)

  val all: Seq[StoreKind] =
    Seq(LeftTimeSorted, LeftKeySorted, RightKeySorted, JoinedIndicator, HeldLeft, HeldRight, JoinedRight)
  private val byName = all.map(k => k.name -> k).toMap

  def named(name: String): Option[StoreKind] = byName.get(name)
}
