package io.tailrace.state

/** A store of an operator's state. The engine goes by the properties of a kind only; what its rows mean is known to the join
  * that keeps them. All kinds are here because ids and names are part of the format on disk, and because a checkpoint is read
  * without its operator, too: by Spark's state reader and by `tailrace inspect`.
  *
  * @param id       the first byte of each of its pages' keys in a run; never reused
  * @param name     in manifests, metrics, errors and the state reader; never changed
  * @param order    of its rows in a section
  * @param compacts whether background compaction may merge its sections
  * @param marks    the store whose rows it marks as gone, by their sequence numbers; none: it holds rows
  */
// No default arguments: they are the companion's, which lists the kinds. Whichever kind is asked for first would have it made
// while that kind isn't there yet.
sealed abstract class StoreKind(
    val id: Byte,
    val name: String,
    val order: RowOrder,
    val compacts: Boolean,
    val marks: Option[StoreKind]
) {
  final def timeSorted: Boolean = order.byTime
  final def hasRows: Boolean = marks.isEmpty
}

object StoreKind {
  case object LeftTimeSorted extends StoreKind(1, "left-time-sorted", RowOrder.Time, true, None)
  case object LeftKeySorted extends StoreKind(2, "left-key-sorted", RowOrder.Key, true, None)
  case object RightKeySorted extends StoreKind(3, "right-key-sorted", RowOrder.Key, true, None)
  case object JoinedIndicator extends StoreKind(4, "joined-indicator", RowOrder.TimeSeqAndKey, true, None)
  case object HeldLeft extends StoreKind(5, "held-left", RowOrder.TimeAndSeq, false, None)
  case object HeldRight extends StoreKind(6, "held-right", RowOrder.KeyTimeAndSeq, false, None)
  case object JoinedRight extends StoreKind(7, "joined-right", RowOrder.TimeSeqAndKey, false, Some(HeldRight))

  val all: Seq[StoreKind] =
    Seq(LeftTimeSorted, LeftKeySorted, RightKeySorted, JoinedIndicator, HeldLeft, HeldRight, JoinedRight)
  private val byName = all.map(k => k.name -> k).toMap

  def named(name: String): Option[StoreKind] = byName.get(name)
}
