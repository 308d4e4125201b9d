package io.tailrace.examples

import java.nio.ByteBuffer
import java.util.{Arrays, HashMap}

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.types.StructType
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.array.ByteArrayMethods

import io.tailrace.join.JoinColumns
import io.tailrace.label.{Candidates, MatchPolicy, MatchSink, Matches}

/** The events of one label that a left row has. Elements are in the order of time, and by content where times are
  * equal. They are read where they are: in the rows of the state.
  *
  * The rows of a key are read once, when the first left row sees them: each left row then finds its own by their
  * times. So the work doesn't grow with the square of the rows of a key.
  */
private[examples] final class LabelEvents(rule: LabelRule, columns: JoinColumns) {
  private val furtherKeys = Option.when(rule.keys.nonEmpty) {
    val keys = rule.keys.map { case (name, to) => columns.left.find(_.name == name).get -> to }
    BindReferences.bindReference(LabelUnion.bytes(keys), columns.left)
  }
  private val hashAt = columns.identityOrdinal.getOrElse(-1)
  private val found = new FoundRows(rule, columns)
  private val credits = Option.when(rule.isShared)(new CreditedRows(rule))
  private val since = rule.since.getOrElse(Long.MinValue)
  private val most = rule.maxMatches.getOrElse(Int.MaxValue)

  // Events that the left row has: all from one number on, or those of which it has a share.
  private var first = 0
  private var count = 0
  // The rows of its keys, and the numbers of those in its window: all of them match it.
  private var ofKeys: LabelRows = _
  private var from = 0
  private var until = 0
  private var shares = new Array[Long](16)
  private var sharing = new Array[Int](16)

  // Those that are emitted.
  private var bases = new Array[AnyRef](16)
  private var offsets = new Array[Long](16)
  private var lengths = new Array[Int](16)
  private var chosen = 0
  private var hidden = false

  /** True if the column is null: the label came later than the left row. */
  def isNull: Boolean = hidden
  def size: Int = chosen

  /** The number of events that the cap has left out. */
  def leftOut: Int = if (rule.policy == MatchPolicy.All) count - chosen else 0

  def base(event: Int): AnyRef = bases(event)
  def offset(event: Int): Long = offsets(event)
  def length(event: Int): Int = lengths(event)

  def bytes: Long = {
    var sum = 0L
    var i = 0
    while (i < chosen) {
      sum += lengths(i)
      i += 1
    }
    sum
  }

  /** True if the column has the same value as another one of the label. */
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
    count = 0
    chosen = 0
    ofKeys = null
    hidden = leftTime < since
    // Mostly there are none.
    if (!hidden && matches.count > 0) {
      found.read(matches)
      val rows = found.of(keysOf(left))
      if (rows != null && rows.size > 0) choose(rows, left, leftTime, matches)
    }
  }

  /** Tells the rows that the left row matches, whatever the policy and the attribution choose of them. */
  def tellMatched(matches: Matches, to: MatchSink): Unit =
    if (ofKeys != null) ofKeys.tell(from, until, matches.rows, to)

  /** None: no keys are equal to a null. */
  private def keysOf(left: UnsafeRow): Array[Byte] =
    if (furtherKeys.isEmpty) LabelEvents.NoKeys else furtherKeys.get.eval(left).asInstanceOf[Array[Byte]]

  private def choose(rows: LabelRows, left: UnsafeRow, leftTime: Long, matches: Matches): Unit = {
    // There may be later ones already, which another version of the left row has.
    val last = matches.rows.time(matches.first + matches.count - 1)
    ofKeys = rows
    from = rows.firstFrom(rule.window.lowerBound(leftTime))
    until = rows.firstAfter(from, Math.min(rule.window.upperBound(leftTime), last))
    first = from
    if (rule.attribution.isEmpty) count = until - from
    else if (until > from && !left.isNullAt(hashAt)) {
      val mine = rows.touches.place(leftTime, left.getLong(hashAt), matches.twin)
      if (mine >= 0) credit(rows, mine, from, until)
    }
    val one = if (count == 0) -1 else rule.policy.choose(count, leftTime, i => rows.time(event(i)))
    if (one >= 0) add(rows, one, matches)
    else {
      var i = 0
      while (i < count && i < most) {
        add(rows, i, matches)
        i += 1
      }
    }
  }

  /** Keeps the events of which the left row has a credit.
    *
    * @param mine       its touch
    * @param from,until numbers of the events in its window
    */
  private def credit(rows: LabelRows, mine: Int, from: Int, until: Int): Unit = rule.attribution match {
    case Some(shared: Attribution.Shared) =>
      var event = from
      while (event < until) {
        val share = rows.share(shared, event, mine)
        if (share > 0) keep(event, share)
        event += 1
      }
    case Some(Attribution.FirstTouch) =>
      first = rows.firstOfFirst(mine, from, until)
      count = until - first
    case _ => count = Math.max(0, rows.firstBehindLast(mine, from, until) - from)
  }

  private def keep(event: Int, share: Long): Unit = {
    if (count == sharing.length) {
      sharing = java.util.Arrays.copyOf(sharing, 2 * count)
      shares = java.util.Arrays.copyOf(shares, 2 * count)
    }
    sharing(count) = event
    shares(count) = share
    count += 1
  }

  /** The number of one of the events that the left row has. */
  private def event(i: Int): Int = if (credits.isEmpty) first + i else sharing(i)

  private def add(rows: LabelRows, i: Int, matches: Matches): Unit = {
    if (chosen == bases.length) grow()
    val struct = found.struct(matches, rows.row(event(i)))
    val where = struct.getLong(LabelUnion.RowPlace)
    val (base, offset) = (struct.getBaseObject, struct.getBaseOffset + (where >>> 32))
    if (credits.isEmpty) {
      bases(chosen) = base
      offsets(chosen) = offset
      lengths(chosen) = where.toInt
    } else {
      val row = credits.get.of(base, offset, where.toInt, shares(i))
      bases(chosen) = row
      offsets(chosen) = Platform.BYTE_ARRAY_OFFSET.toLong
      lengths(chosen) = row.length
    }
    chosen += 1
  }

  private def grow(): Unit = {
    val size = 2 * chosen
    bases = java.util.Arrays.copyOf(bases, size)
    offsets = java.util.Arrays.copyOf(offsets, size)
    lengths = java.util.Arrays.copyOf(lengths, size)
  }
}

private object LabelEvents {
  private[examples] val NoKeys = new Array[Byte](0)
}

/** The rows of one label among the matches of left rows, by the label's further keys. It continues to read as left
  * rows see more of a key's rows, and restarts with another key.
  */
private final class FoundRows(rule: LabelRule, columns: JoinColumns) {
  private val element = new UnsafeRow(columns.payload.size)
  private val event = new UnsafeRow(rule.structSize)
  private val hasKeys = rule.keys.nonEmpty
  private val since = rule.since.getOrElse(Long.MinValue)

  private val all = new LabelRows(rule)
  private val byKeys = new HashMap[ByteBuffer, LabelRows]
  private var rows: Candidates = _
  private var generation = 0L
  // Rows before the first number have been read, and those before the second one may be dropped.
  private var seen = 0L
  private var forgotten = 0L

  /** Reads rows that are among the matches of a left row, and weren't among those of an earlier one. */
  def read(matches: Matches): Unit = {
    val of = matches.rows
    if ((of ne rows) || of.generation != generation) begin(of)
    else if (of.dropped - forgotten > of.size) forget(of)
    val end = of.dropped + matches.first + matches.count
    seen = Math.max(seen, of.dropped + matches.first)
    while (seen < end) {
      look((seen - of.dropped).toInt)
      seen += 1
    }
  }

  private def begin(of: Candidates): Unit = {
    rows = of
    generation = of.generation
    seen = 0L
    forgotten = 0L
    all.clear()
    if (!byKeys.isEmpty) byKeys.clear()
  }

  /** A key may have more rows than there is memory for: only those of some windows are there at a time. */
  private def forget(of: Candidates): Unit = {
    forgotten = of.dropped
    val time = of.time(0)
    all.dropBefore(time)
    byKeys.values.forEach(_.dropBefore(time))
    byKeys.values.removeIf(_.isEmpty): Unit
  }

  private def look(position: Int): Unit = {
    rows.pointTo(element, position)
    if (!element.isNullAt(rule.place)) {
      pointToEvent()
      if (!hasKeys) add(all, position)
      else if (!event.isNullAt(LabelUnion.KeysPlace)) {
        val keys = ByteBuffer.wrap(event.getBinary(LabelUnion.KeysPlace))
        add(byKeys.computeIfAbsent(keys, _ => new LabelRows(rule)), position)
      }
    }
  }

  private def pointToEvent(): Unit = {
    val where = element.getLong(rule.place)
    event.pointTo(element.getBaseObject, element.getBaseOffset + (where >>> 32), where.toInt)
  }

  private def add(to: LabelRows, position: Int): Unit = {
    val time = rows.time(position)
    if (rule.attribution.isEmpty || event.isNullAt(rule.touchPlace)) to.add(time, rows.dropped + position)
    // An impression before the label began has none of its events, and no share in them.
    else if (time >= since) to.touches.add(time, event.getLong(rule.touchPlace))
  }

  /** @param keys the further keys of a left row; null: one of them is null
    * @return null if there are none
    */
  def of(keys: Array[Byte]): LabelRows = {
    val rows = if (!hasKeys) all else if (keys == null) null else byKeys.get(ByteBuffer.wrap(keys))
    // Matches have all rows of their last time.
    if (rows != null) rows.touches.settle()
    rows
  }

  /** The struct of an event.
    *
    * @param row its number
    */
  def struct(matches: Matches, row: Long): UnsafeRow = {
    matches.rows.pointTo(element, (row - matches.rows.dropped).toInt)
    pointToEvent()
    event
  }
}

/** Appends a credit to the columns of an event. */
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

/** The events of one label and one key, and the touches of impressions that may share them. Values that all touches
  * of an event have in common are computed once, with the first of them.
  *
  * {{{
  *   impressions of user 1   12:00   12:10   12:30          orders at 12:40 and 12:50
  *   12:00 needs             the weights of three touches for each order: their sum, and the remainder for 12:30
  *   12:10, 12:30 need       one weight for each order
  * }}}
  *
  * Events are numbered from 0, in the order of time, and by content where times are equal.
  */
private[examples] final class LabelRows(rule: LabelRule) {
  import LabelRows._
  import rule.window

  val touches = new Touches
  private val shared = rule.attribution.collect { case one: Attribution.Shared => one }
  private var times = new Array[Long](4)
  private var rows = new Array[Long](4)
  private var count = 0
  // Events before this one have been told as matches.
  private var told = 0

  // For each event in use: its first touch, the number of touches, and their common values.
  private var firsts = Array.emptyIntArray
  private var numbers = Array.emptyIntArray
  private var sums = Array.emptyDoubleArray
  private var lasts = Array.emptyLongArray

  def size: Int = count
  def isEmpty: Boolean = count == 0 && touches.size == 0

  def clear(): Unit = {
    count = 0
    told = 0
    touches.clear()
  }

  /** Tells events, each once: left rows come in the order of time.
    *
    * @param from,until numbers of events
    */
  def tell(from: Int, until: Int, candidates: Candidates, to: MatchSink): Unit = {
    var event = Math.max(from, told)
    while (event < until) {
      val position = (rows(event) - candidates.dropped).toInt
      to.add(candidates.time(position), candidates.seq(position))
      event += 1
    }
    told = Math.max(told, until)
  }

  /** @param row the number of its row among the candidates, which it keeps */
  def add(time: Long, row: Long): Unit = {
    if (count == times.length) grow()
    times(count) = time
    rows(count) = row
    if (shared.nonEmpty) firsts(count) = Unknown
    count += 1
  }

  private def grow(): Unit = {
    times = Arrays.copyOf(times, 2 * count)
    rows = Arrays.copyOf(rows, 2 * count)
    if (shared.nonEmpty) growShares()
  }

  private def growShares(): Unit = {
    firsts = Arrays.copyOf(firsts, times.length)
    numbers = Arrays.copyOf(numbers, times.length)
    sums = Arrays.copyOf(sums, times.length)
    lasts = Arrays.copyOf(lasts, times.length)
  }

  if (shared.nonEmpty) growShares()

  def time(event: Int): Long = times(event)
  def row(event: Int): Long = rows(event)

  /** The number of the first event at or after a time. */
  def firstFrom(time: Long): Int =
    if (time == Long.MinValue) 0 else SortedTimes.countThrough(times, 0, count, time - 1)

  /** The number of the first event after a time, from one on. */
  def firstAfter(from: Int, time: Long): Int = SortedTimes.countThrough(times, from, count, time)

  /** Drops events before a time. Neither they nor events that such a touch shares are needed any longer. */
  def dropBefore(time: Long): Unit = {
    val events = firstFrom(time)
    told = Math.max(0, told - events)
    val gone = touches.countBefore(time)
    if (gone > 0) touches.dropFirst(gone)
    count -= events
    System.arraycopy(times, events, times, 0, count)
    System.arraycopy(rows, events, rows, 0, count)
    if (shared.nonEmpty) {
      System.arraycopy(firsts, events, firsts, 0, count)
      System.arraycopy(numbers, events, numbers, 0, count)
      System.arraycopy(sums, events, sums, 0, count)
      System.arraycopy(lasts, events, lasts, 0, count)
      (0 until count).foreach(event => firsts(event) = Math.max(Unknown, firsts(event) - gone))
    }
  }

  /** The first event in a range, end exclusive, whose first touch is this one, or a later one. */
  def firstOfFirst(touch: Int, from: Int, until: Int): Int =
    if (touch == 0) from
    else search(from, until)(at => touches.time(touch - 1) < window.earliestLeft(at))

  /** The first event in a range, end exclusive, whose last touch is later than this one. */
  def firstBehindLast(touch: Int, from: Int, until: Int): Int =
    if (touch + 1 == touches.size) until
    else search(from, until)(at => touches.time(touch + 1) <= window.latestLeft(at))

  /** The first event for which a condition holds that holds for all later ones. */
  private def search(from: Int, until: Int)(holds: Long => Boolean): Int = {
    var low = from
    var high = until
    while (low < high) {
      val middle = (low + high) >>> 1
      if (holds(times(middle))) high = middle else low = middle + 1
    }
    low
  }

  /** The credit of one of the touches of an event, in billionths. */
  def share(of: Attribution.Shared, event: Int, touch: Int): Long = {
    val at = times(event)
    if (firsts(event) == Unknown) split(of, event)
    val first = firsts(event)
    def ago(touch: Int) = Math.abs(at - touches.time(first + touch))
    of.share(sums(event), lasts(event), numbers(event), touch - first, ago)
  }

  private def split(of: Attribution.Shared, event: Int): Unit = {
    val at = times(event)
    val first = touches.countBefore(window.earliestLeft(at))
    val n = touches.countThrough(window.latestLeft(at)) - first
    def ago(touch: Int) = Math.abs(at - touches.time(first + touch))
    val sum = of.sum(n, ago)
    firsts(event) = first
    numbers(event) = n
    sums(event) = sum
    lasts(event) = of.last(sum, n, ago)
  }
}

private object LabelRows {
  private val Unknown = -1
}

/** The impressions of a key that may share an event, in order: by time, and by a hash of their content where times are
  * equal. Each impression leaves a touch among the rows of labels: its time and that hash ([[ImpressionHash]]).
  * Impressions that are equal in both are separate touches, one after the other.
  *
  * Add touches in the order of time, `settle`, then read. Touches that are added later come after the others.
  */
private[examples] final class Touches {
  private var at = new Array[Long](4)
  private var hashes = new Array[Long](4)
  private var count = 0
  private var settled = 0

  def size: Int = count

  def clear(): Unit = {
    count = 0
    settled = 0
  }

  def add(time: Long, hash: Long): Unit = {
    if (count == at.length) {
      at = Arrays.copyOf(at, 2 * count)
      hashes = Arrays.copyOf(hashes, 2 * count)
    }
    at(count) = time
    hashes(count) = hash
    count += 1
  }

  /** Sorts the touches that were added since the last call. All touches of their times must have been added. */
  def settle(): Unit = {
    var from = settled
    while (from < count) {
      var until = from + 1
      while (until < count && at(until) == at(from)) until += 1
      if (until - from > 1) Arrays.sort(hashes, from, until)
      from = until
    }
    settled = count
  }

  /** Removes the first ones. Those that are left are numbered from 0. */
  def dropFirst(touches: Int): Unit = {
    count -= touches
    settled -= touches
    System.arraycopy(at, touches, at, 0, count)
    System.arraycopy(hashes, touches, hashes, 0, count)
  }

  /** The number of a touch; -1 if it isn't there.
    *
    * @param twin how many impressions that are equal to this one come before it
    */
  def place(time: Long, hash: Long, twin: Int): Int = {
    val (from, until) = (countBefore(time), countThrough(time))
    var low = from
    var high = until
    while (low < high) {
      val middle = (low + high) >>> 1
      if (hashes(middle) < hash) low = middle + 1 else high = middle
    }
    if (twin < until - low && hashes(low + twin) == hash) low + twin else -1
  }

  /** The number of touches that are before a time. */
  def countBefore(time: Long): Int = if (time == Long.MinValue) 0 else countThrough(time - 1)

  /** The number of touches that aren't after a time. */
  def countThrough(time: Long): Int = SortedTimes.countThrough(at, 0, count, time)

  def time(place: Int): Long = at(place)
}

/** Times in ascending order. */
private[examples] object SortedTimes {

  /** The place of the first one after a time, among those from place `from` (inclusive) to `until` (exclusive). */
  def countThrough(times: Array[Long], from: Int, until: Int, last: Long): Int = {
    var low = from
    var high = until
    while (low < high) {
      val middle = (low + high) >>> 1
      if (times(middle) <= last) low = middle + 1 else high = middle
    }
    low
  }
}
