package io.tailrace.state

/** The stores that an operator's state consists of. A time-sorted store is scanned from the oldest row on (what expires
  * next?), by time and sequence number; a key-sorted one is merged with rows sorted by key (what matches?). A
  * joined-indicator store holds matches already found, under the time and sequence number of their left rows.
  *
  * @param id   the first byte of each of its pages' keys in a run; never reused
  * @param name what metrics, errors and the state reader call it
  */
sealed abstract class StoreKind(val id: Byte, val name: String, val timeSorted: Boolean)

object StoreKind {
  case object LeftTimeSorted extends StoreKind(1, "left-time-sorted", timeSorted = true)
  case object LeftKeySorted extends StoreKind(2, "left-key-sorted", timeSorted = false)
  case object RightKeySorted extends StoreKind(3, "right-key-sorted", timeSorted = false)

  case object JoinedIndicator extends StoreKind(4, "joined-indicator", timeSorted = true)

  val all: Seq[StoreKind] = Seq(LeftTimeSorted, LeftKeySorted, RightKeySorted, JoinedIndicator)
  private val byName = all.map(k => k.name -> k).toMap

  def named(name: String): Option[StoreKind] = byName.get(name)
}
