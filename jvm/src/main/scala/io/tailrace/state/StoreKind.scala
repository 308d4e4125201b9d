package io.tailrace.state

import io.tailrace.common.Side

/** A store of an operator's state. The engine goes by the properties of a kind only; the join that keeps the
  * rows knows what they mean. All kinds are here because ids and names are part of the format on disk, which
  * Spark's state reader and `tailrace inspect` read without the operator.
  *
  * @param id       the first byte of each of its pages' keys in a run; never reused
  * @param name     in manifests, metrics, errors and the state reader; never changed
  * @param order    of its rows in a section
  * @param side     the side of the join whose rows it has; none: it has matches, tombstones or pages
  * @param compacts true if background compaction may merge its sections
  * @param expires  the time of a version through which its rows have left, though they are still in their sections
  * @param marks    the store whose rows it has tombstones of, by their sequence numbers; none: it holds rows
  * @param pages    the kind of the sections that hold its [[PageFilters]]; none: its pages have none
  */
// No default arguments: they would initialize the companion, which lists the kinds, while the first kind that
// is used isn't there yet.
sealed abstract class StoreKind(
    val id: Byte,
    val name: String,
    val order: RowOrder,
    val side: Option[Side],
    val compacts: Boolean,
    val expires: ExpiryTime,
    val marks: Option[StoreKind],
    val pages: Option[StoreKind]
) {
  final def timeSorted: Boolean = order.byTime
  final def hasRows: Boolean = marks.isEmpty

  /** True if only the newest of a key's rows counts, up to a time: see [[NewestRows]]. */
  def keepsNewest: Boolean = false
}

object StoreKind {
  import ExpiryTime._

  case object LeftTimeSorted
      extends StoreKind(1, "left-time-sorted", RowOrder.Time, Some(Side.Left), true, Results, None, None)
  case object LeftKeySorted
      extends StoreKind(
        2,
        "left-key-sorted",
        RowOrder.Key,
        Some(Side.Left),
        true,
        Results,
        None,
        Some(LeftKeyPages)
      )
  case object RightKeySorted
      extends StoreKind(
        3,
        "right-key-sorted",
        RowOrder.Key,
        Some(Side.Right),
        true,
        Never,
        None,
        Some(RightKeyPages)
      )
  case object JoinedIndicator
      extends StoreKind(4, "joined-indicator", RowOrder.TimeSeqAndKey, None, true, Results, None, None)
  case object HeldLeft
      extends StoreKind(5, "held-left", RowOrder.TimeAndSeq, Some(Side.Left), false, Results, None, None)
  case object HeldRight
      extends StoreKind(
        6,
        "held-right",
        RowOrder.KeyTimeAndSeq,
        Some(Side.Right),
        false,
        Operator,
        None,
        None
      )
  case object JoinedRight
      extends StoreKind(7, "joined-right", RowOrder.TimeSeqAndKey, None, false, Never, Some(HeldRight), None)
  case object RightNewest
      extends StoreKind(
        8,
        "right-newest",
        RowOrder.Key,
        Some(Side.Right),
        true,
        Never,
        None,
        Some(RightNewestPages)
      ) {
    override def keepsNewest: Boolean = true
  }
  case object GoneLeft
      extends StoreKind(9, "gone-left", RowOrder.TimeAndSeq, None, true, Results, Some(LeftKeySorted), None)
  case object GoneRight
      extends StoreKind(10, "gone-right", RowOrder.TimeAndSeq, None, true, Never, Some(RightKeySorted), None)
  case object RightTimeSorted
      extends StoreKind(11, "right-time-sorted", RowOrder.Time, Some(Side.Right), true, Operator, None, None)
  case object LeftOut
      extends StoreKind(12, "left-out", RowOrder.Key, None, true, Never, None, Some(LeftOutPages))
  case object JoinedLeft
      extends StoreKind(13, "joined-left", RowOrder.TimeSeqAndKey, None, false, Never, Some(HeldLeft), None)
  case object MatchedRight
      extends StoreKind(14, "matched-right", RowOrder.TimeAndSeq, None, true, Never, None, None)

  // Not stores, but parts of runs that belong to the sections of one: no manifest names them.
  case object LeftKeyPages
      extends StoreKind(66, "left-key-pages", RowOrder.Key, None, false, Never, None, None)
  case object RightKeyPages
      extends StoreKind(67, "right-key-pages", RowOrder.Key, None, false, Never, None, None)
  case object RightNewestPages
      extends StoreKind(68, "right-newest-pages", RowOrder.Key, None, false, Never, None, None)
  case object LeftOutPages
      extends StoreKind(69, "left-out-pages", RowOrder.Key, None, false, Never, None, None)

  val all: Seq[StoreKind] =
    Seq(
      LeftTimeSorted,
      LeftKeySorted,
      RightKeySorted,
      JoinedIndicator,
      HeldLeft,
      HeldRight,
      JoinedRight,
      RightNewest,
      GoneLeft,
      GoneRight,
      RightTimeSorted,
      LeftOut,
      JoinedLeft,
      MatchedRight
    )
  private val byName = all.map(k => k.name -> k).toMap

  def named(name: String): Option[StoreKind] = byName.get(name)
}

/** The kinds of rows in scratch runs. No manifest names such a run, so it borrows the kind of a store that has the order it
  * needs.
  */
private[tailrace] object ScratchKind {
  val ByTime: StoreKind = StoreKind.LeftTimeSorted
  val ByKey: StoreKind = StoreKind.RightKeySorted
  val ByKeyTimeAndSeq: StoreKind = StoreKind.HeldRight
}

/** The time of a version through which the rows of a store have left the state: see [[Expiry]]. */
sealed trait ExpiryTime

object ExpiryTime {

  /** Results of left rows up to this time have been emitted. */
  case object Results extends ExpiryTime

  /** The operator's own time. */
  case object Operator extends ExpiryTime

  /** Rows leave with their sections, or one by one, by tombstones. */
  case object Never extends ExpiryTime
}

/** The order of a store's rows in a section: by time first, to find the oldest, or by key first, to find
  * matches. [[SortedRows]] sorts a batch's rows by it, [[RunCursor.inOrder]] compares rows of sections.
  */
sealed abstract class RowOrder(val byTime: Boolean)

object RowOrder {

  /** By time and sequence number, for rows that come in the order of their sequence numbers. */
  case object Time extends RowOrder(byTime = true)

  /** The same for rows that come in any order. */
  case object TimeAndSeq extends RowOrder(byTime = true)

  /** The same where several rows have one sequence number. */
  case object TimeSeqAndKey extends RowOrder(byTime = true)

  /** By key, time and sequence number, for rows that come in the order of their sequence numbers. */
  case object Key extends RowOrder(byTime = false)

  /** The same for rows that come in any order. */
  case object KeyTimeAndSeq extends RowOrder(byTime = false)
}
