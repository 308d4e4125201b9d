package io.tailrace.examples

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.types.StructType
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.array.ByteArrayMethods

import io.tailrace.join.JoinColumns
import io.tailrace.label.{MatchPolicy, Matches}

/** The events of one label that a left row has. Elements are in the order of time, and by content where times are
  * equal. They are read where they are: in the rows of the state.
  */
private[examples] final class LabelEvents(rule: LabelRule, columns: JoinColumns) {
  private val element = new UnsafeRow(columns.payload.size)
  private val struct = new UnsafeRow(rule.structSize)
  private val furtherKeys = Option.when(rule.keys.nonEmpty) {
    val keys = rule.keys.map { case (name, to) => columns.left.find(_.name == name).get -> to }
    BindReferences.bindReference(LabelUnion.bytes(keys), columns.left)
  }
  private val hashAt = columns.left.indexWhere(_.name == LabelUnion.Hash)
  private val touches = new Touches
  private val shares = rule.attribution.map(new EventShares(_))
  private val credits = Option.when(rule.isShared)(new CreditedRows(rule))
  private val since = rule.since.getOrElse(Long.MinValue)
  private val most = rule.maxMatches.getOrElse(Int.MaxValue)

  private var times = new Array[Long](16)
  private var bases = new Array[AnyRef](16)
  private var offsets = new Array[Long](16)
  private var lengths = new Array[Int](16)
  private var found = 0
  // Those that come out.
  private var start = 0
  private var chosen = 0
  private var hidden = false

  /** Whether the column is null: the label came later than the left row. */
  def isNull: Boolean = hidden
  def size: Int = chosen

  /** How many events the cap has left out. */
  def leftOut: Int = if (rule.policy == MatchPolicy.All) found - chosen else 0

  def base(event: Int): AnyRef = bases(start + event)
  def offset(event: Int): Long = offsets(start + event)
  def length(event: Int): Int = lengths(start + event)

  def bytes: Long = {
    var sum = 0L
    var i = start
    while (i < start + chosen) {
      sum += lengths(i)
      i += 1
    }
    sum
  }

  /** Whether the column has the same value as another one of the label. */
  def isSame(other: LabelEvents): Boolean =
    hidden == other.hidden && chosen == other.chosen && (leftOut > 0) == (other.leftOut > 0) && {
      var i = 0
      while (i < chosen && isSame(i, other)) i += 1
      i == chosen
    }

  private def isSame(i: Int, other: LabelEvents): Boolean =
    length(i) == other.length(i) &&
      ByteArrayMethods.arrayEquals(base(i), offset(i), other.base(i), other.offset(i), length(i).toLong)

  def find(left: UnsafeRow, leftTime: Long, matches: Matches): Unit = {
    found = 0
    start = 0
    chosen = 0
    hidden = leftTime < since
    // Mostly there are none.
    if (!hidden && matches.count > 0) choose(left, leftTime, matches)
  }

  private def choose(left: UnsafeRow, leftTime: Long, matches: Matches): Unit = {
    gather(left, leftTime, matches)
    shares.foreach(credit(_, left, leftTime))
    val one = if (found == 0) -1 else rule.policy.choose(found, leftTime, times(_))
    start = Math.max(one, 0)
    chosen = if (one >= 0) 1 else Math.min(found, most)
  }

  private def gather(left: UnsafeRow, leftTime: Long, matches: Matches): Unit = {
    val lower = rule.window.lowerBound(leftTime)
    val upper = rule.window.upperBound(leftTime)
    var keys: Array[Byte] = null
    if (rule.attribution.nonEmpty) touches.clear()
    var position = matches.first
    val end = position + matches.count
    while (position < end) {
      matches.rows.pointTo(element, position)
      if (!element.isNullAt(rule.place)) {
        point(struct, element, rule.place)
        if (furtherKeys.nonEmpty && keys == null) keys = keysOf(left)
        if (furtherKeys.isEmpty || hasKeys(keys)) add(matches.rows.time(position), lower, upper)
      }
      position += 1
    }
  }

  private def add(at: Long, lower: Long, upper: Long): Unit =
    if (rule.attribution.nonEmpty && !struct.isNullAt(rule.touchPlace))
      touches.add(at, struct.getLong(rule.touchPlace))
    else if (at >= lower && at <= upper) {
      if (found == times.length) grow()
      times(found) = at
      val where = struct.getLong(LabelUnion.RowPlace)
      bases(found) = struct.getBaseObject
      offsets(found) = struct.getBaseOffset + (where >>> 32)
      lengths(found) = where.toInt
      found += 1
    }

  private def grow(): Unit = {
    val size = 2 * found
    times = java.util.Arrays.copyOf(times, size)
    bases = java.util.Arrays.copyOf(bases, size)
    offsets = java.util.Arrays.copyOf(offsets, size)
    lengths = java.util.Arrays.copyOf(lengths, size)
  }

  /** Points a row to a struct in another one. */
  private def point(row: UnsafeRow, in: UnsafeRow, place: Int): Unit = {
    val where = in.getLong(place)
    row.pointTo(in.getBaseObject, in.getBaseOffset + (where >>> 32), where.toInt)
  }

  /** None: no keys are equal to a null. */
  private def keysOf(left: UnsafeRow): Array[Byte] =
    Option(furtherKeys.get.eval(left).asInstanceOf[Array[Byte]]).getOrElse(LabelEvents.NoKeys)

  private def hasKeys(keys: Array[Byte]): Boolean =
    keys.length > 0 && !struct.isNullAt(LabelUnion.KeysPlace) && {
      val where = struct.getLong(LabelUnion.KeysPlace)
      where.toInt == keys.length && ByteArrayMethods.arrayEquals(
        struct.getBaseObject,
        struct.getBaseOffset + (where >>> 32),
        keys,
        Platform.BYTE_ARRAY_OFFSET.toLong,
        keys.length.toLong
      )
    }

  /** Keeps the events of which the left row has a credit. */
  private def credit(shares: EventShares, left: UnsafeRow, leftTime: Long): Unit = {
    val events = found
    found = 0
    touches.settle()
    val mine = if (events == 0 || left.isNullAt(hashAt)) -1 else touches.place(leftTime, left.getLong(hashAt))
    var i = 0
    while (mine >= 0 && i < events) {
      val at = times(i)
      // Of the touches whose window the event is in.
      val first = touches.firstFrom(rule.window.earliestLeft(at))
      val n = touches.firstFrom(rule.window.latestLeft(at) + 1) - first
      val share = shares.credit(at, touches, first, n, mine - first)
      if (share > 0) keep(i, share)
      i += 1
    }
  }

  private def keep(i: Int, share: Long): Unit = {
    times(found) = times(i)
    if (credits.isEmpty) {
      bases(found) = bases(i)
      offsets(found) = offsets(i)
      lengths(found) = lengths(i)
    } else {
      val row = credits.get.of(bases(i), offsets(i), lengths(i), share)
      bases(found) = row
      offsets(found) = Platform.BYTE_ARRAY_OFFSET.toLong
      lengths(found) = row.length
    }
    found += 1
  }
}

private object LabelEvents {
  private val NoKeys = new Array[Byte](0)
}

/** Puts a credit behind the columns of an event. */
private final class CreditedRows(rule: LabelRule) {
  private val event = new UnsafeRow(rule.row.size)
  private val credit = new GenericInternalRow(1)
  private val both = new JoinedRow(event, credit)
  private val projection = UnsafeProjection.create(StructType(rule.row :+ LabelRule.Credit))

  /** @return the bytes of a row */
  def of(base: AnyRef, offset: Long, length: Int, share: Long): Array[Byte] = {
    event.pointTo(base, offset, length)
    credit.update(0, Attribution.decimal(share))
    // A copy: the projection writes the next row into the same bytes.
    projection(both).copy().getBytes
  }
}
