package io.tailrace.label

import java.util.Arrays

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import io.tailrace.common.RowMemoryExhausted
import io.tailrace.state.{LiveSection, RowBuffer, RowMemory}

/** The right rows of one key that its left rows may match, in the order of time. Rows of one time are in
  * the order of their content, because a shuffle brings them in another order each time.
  *
  * Add rows, `settle`, then read by position. `slideTo` finds the stretch of them that a left row matches.
  * Left rows come in the order of time, so no row is looked at twice.
  */
final class Candidates(memory: RowMemory) extends AutoCloseable {
  private val rows = new RowBuffer(memory)
  private lazy val aside = new RowBuffer(memory)
  private var ranked = new Array[Int](64)
  private var sections = new Array[LiveSection](0)
  private var inOrder = true
  private var latest = Long.MinValue
  private var begin = 0
  private var end = 0
  private var generations = 0L
  private var removed = 0L

  /** Changes whenever the rows are replaced. Rows added at the end or dropped from the beginning leave it as it is.
    */
  def generation: Long = generations

  /** The number of rows of the generation that were dropped from the beginning. A row's position and this are a number that the
    * row keeps.
    */
  def dropped: Long = removed

  def clear(): Unit = {
    begin = 0
    end = 0
    generations += 1
    removed = 0
    if (!rows.isEmpty) forget()
  }

  private def forget(): Unit = {
    rows.clear()
    inOrder = true
    latest = Long.MinValue
  }

  def release(): Unit = {
    clear()
    rows.release()
    aside.release()
  }

  def bytes: Long = rows.bytes

  /** Adds a copy of a row of a run. */
  def add(base: AnyRef, at: Long): Unit = added(rows.appendWithoutKey(base, at))

  /** Adds a copy of a row, and remembers its section. Such rows are all settled at once. */
  def addOf(live: LiveSection, base: AnyRef, at: Long): Unit = {
    if (sections.length <= rows.size) sections = Arrays.copyOf(sections, Math.max(64, rows.size * 2))
    sections(rows.size) = live
    add(base, at)
  }

  /** Adds a row without a key. */
  def add(time: Long, base: AnyRef, offset: Long, length: Int): Unit =
    added(rows.append(Candidates.NoKey, 0, time, 0L, base, offset, length))

  private def added(row: Int): Unit = {
    if (row == ranked.length) ranked = Arrays.copyOf(ranked, row * 2)
    ranked(row) = row
    // Equal times too: their contents have yet to be compared.
    if (row > 0 && rows.time(row) <= latest) inOrder = false
    latest = rows.time(row)
  }

  /** Puts the rows that were added in order. */
  def settle(): Unit = if (!inOrder) {
    sort(0)
    inOrder = true
  }

  /** Puts the rows from a position on in order. Rows before it are in order, and come before these. */
  def settleFrom(position: Int): Unit = {
    if (size - position > 1) sort(position)
    inOrder = true
  }

  /** Keeps `count` rows from position `first` on, and forgets the others from position `from` on. All rows
    * must be in order. Those before `from` must have been added before the others.
    */
  def keep(from: Int, first: Int, count: Int): Unit = if (first > from || first + count < size) {
    var i = 0
    while (i < count) {
      aside.appendRow(base(first + i), at(first + i))
      i += 1
    }
    rows.truncate(from)
    i = 0
    while (i < count) {
      ranked(from + i) = rows.appendRow(aside.base(i), aside.at(i))
      i += 1
    }
    aside.clear()
    generations += 1
    removed = 0
    latest = if (size == 0) Long.MinValue else time(size - 1)
  }

  /** Forgets the rows before position `count`, which must have been added before the others. */
  def dropFirst(count: Int): Unit = if (count > 0) {
    val left = size - count
    rows.dropFirst(count)
    removed += count
    var i = 0
    while (i < left) {
      ranked(i) = ranked(i + count) - count
      i += 1
    }
    begin = Math.max(0, begin - count)
    end = Math.max(0, end - count)
  }

  def size: Int = rows.size

  /** Moves on to the rows from `lower` to `upper`, both included. Neither may go back before `clear`. */
  def slideTo(lower: Long, upper: Long): Unit = {
    while (begin < size && time(begin) < lower) begin += 1
    if (end < begin) end = begin
    while (end < size && time(end) <= upper) end += 1
  }

  /** The rows of the stretch: `count` of them, from position `first` on. */
  def first: Int = begin
  def count: Int = end - begin

  def time(position: Int): Long = rows.time(ranked(position))

  /** The number of rows from position `from` on, before `until`, that aren't after a time. */
  def countThrough(from: Int, until: Int, last: Long): Int = {
    var low = from
    var high = until
    while (low < high) {
      val middle = (low + high) >>> 1
      if (time(middle) <= last) low = middle + 1 else high = middle
    }
    low - from
  }

  def seq(position: Int): Long = rows.seq(ranked(position))

  /** The section of a row that was added with it. */
  def section(position: Int): LiveSection = sections(ranked(position))

  /** The row's place: see [[io.tailrace.state.RowLayout]]. */
  def at(position: Int): Long = rows.at(ranked(position))
  def base(position: Int): AnyRef = rows.base(ranked(position))

  def valueOffset(position: Int): Long = rows.valueOffset(ranked(position))
  def valueLength(position: Int): Int = rows.valueLength(ranked(position))

  /** @return `row`, pointed to the value at the position */
  def pointTo(row: UnsafeRow, position: Int): UnsafeRow = {
    row.pointTo(base(position), valueOffset(position), valueLength(position))
    row
  }

  private def sort(from: Int): Unit =
    if (size - from <= 32) insertionSort(from) else sortMany(from)

  private def insertionSort(from: Int): Unit = {
    var i = from + 1
    while (i < rows.size) {
      val row = ranked(i)
      var j = i - 1
      while (j >= from && compare(ranked(j), row) > 0) {
        ranked(j + 1) = ranked(j)
        j -= 1
      }
      ranked(j + 1) = row
      i += 1
    }
  }

  /** For many rows: boxed row numbers are small beside them, and Java's sort uses sorted stretches. */
  private def sortMany(from: Int): Unit = {
    val boxed = Array.tabulate[Integer](size - from)(i => ranked(from + i))
    Arrays.sort(boxed, (a: Integer, b: Integer) => compare(a, b))
    var i = 0
    while (i < boxed.length) {
      ranked(from + i) = boxed(i)
      i += 1
    }
  }

  private def compare(a: Int, b: Int): Int = {
    val byTime = java.lang.Long.compare(rows.time(a), rows.time(b))
    if (byTime != 0) byTime else rows.compareValues(a, b)
  }

  override def close(): Unit = release()
}

object Candidates {
  private[label] val NoKey = new Array[Byte](0)
}

/** The matches of a left row: `count` of the candidates, from position `first` on.
  *
  * @param matched how many there are, with those that the policy would never choose
  * @param twin    how many left rows that are equal to this one come before it ([[Twins]]); 0 where nobody asks
  */
private[tailrace] final case class Matches(
    rows: Candidates,
    first: Int,
    count: Int,
    matched: Int,
    twin: Int = 0
)

/** Gets the right rows that left rows match. */
private[tailrace] trait MatchSink {

  /** Right rows that follow have the key of this row, which stays where it is until then. */
  def leftIs(row: AnyRef, rowAt: Long): Unit

  /** A right row of the left row's key. It may come several times. */
  def add(time: Long, seq: Long): Unit
}

/** The right rows of a key that are in a left row's window, read as the window moves on. It holds one window
  * at a time, and of it no more than the policy can choose from. It is for keys that have more rows than
  * memory has room for.
  *
  * {{{
  *   right rows   12:00 12:01 12:02 12:03 12:04 ...
  *   left row at 12:01, window 10 min     all: up to 12:11     first: 12:01     max_matches = 2: 12:01 12:02
  *   left row at 12:03                    all: from 12:03 on   first: 12:03     max_matches = 2: 12:03 12:04
  * }}}
  *
  * Among rows of one time the content decides which is first and last, so all are read before it chooses.
  *
  * @param candidates gets the rows that a left row can choose from, in order
  */
private[label] final class MatchWindow(bound: MatchBound, candidates: Candidates) {
  import MatchPolicy._

  private var rows: KeyedRows = _
  // The number of candidates, from the first one on, that are before all windows to come.
  private var dead = 0
  private val selection = new MatchSelection(bound, candidates, () => dropDead())

  def start(of: KeyedRows): Unit = {
    rows = of
    candidates.clear()
    dead = 0
  }

  /** Moves on to the window of the next left row. Left rows come in the order of time. */
  def slideTo(leftTime: Long, lower: Long, upper: Long): Unit = {
    while (dead < candidates.size && candidates.time(dead) < lower) dead += 1
    if (dead > candidates.size / 2) dropDead()
    while (!rows.isEmpty && rows.time < lower) rows.advance()
    def isNext = !rows.isEmpty && rows.time <= upper
    bound.policy match {
      case All | First =>
        while (isNext && candidates.size - dead < bound.most) selection.take(rows, leftTime, ofOneTime = true)
      case Last =>
        while (isNext) {
          selection.take(rows, leftTime, ofOneTime = true)
          keepLast(1)
        }
      case Nearest =>
        while (isNext && (candidates.size == 0 || lastTime < leftTime)) {
          selection.take(rows, leftTime, ofOneTime = true)
          if (lastTime <= leftTime) keepLast(1)
        }
        // If a candidate isn't after the left row, no earlier one is nearest to it or to a later left row.
        while (candidates.size > 1 && candidates.time(1) <= leftTime) keepLast(candidates.size - 1)
    }
    candidates.slideTo(lower, upper)
  }

  private def lastTime: Long = candidates.time(candidates.size - 1)

  private def keepLast(count: Int): Unit = {
    candidates.dropFirst(candidates.size - count)
    dead = 0
  }

  private def dropDead(): Unit = {
    candidates.dropFirst(dead)
    dead = 0
  }
}

/** Right rows of one key, read one after the other, from memory or from files. */
private[label] trait KeyedRows {
  def isEmpty: Boolean

  /** The time of the next row. */
  def time: Long
  def addTo(candidates: Candidates): Unit
  def advance(): Unit
}

/** Gathers rows that come in any order, and keeps those that a group can hold. A policy that chooses one
  * row needs no room for all rows that it chooses from.
  *
  * @param makeRoom gives back memory of candidates that nobody needs any more
  */
private[label] final class MatchSelection(
    bound: MatchBound,
    candidates: Candidates,
    makeRoom: () => Unit = () => ()
) {
  // The number of rows to gather before it chooses among them.
  private val enough = if (bound.most > Int.MaxValue / 4) Int.MaxValue else 1024 + 2 * bound.most
  // This number of candidates, the last ones, are being gathered.
  private var held = 0

  /** Puts the rows that it keeps behind the other candidates, in order.
    *
    * @param ofOneTime whether to take only the rows of the next row's time
    * @return how many rows it has read
    */
  def take(rows: KeyedRows, leftTime: Long, ofOneTime: Boolean): Int = {
    val time = if (ofOneTime) rows.time else 0L
    var seen = 0
    held = 0
    while (!rows.isEmpty && (!ofOneTime || rows.time == time)) {
      try rows.addTo(candidates)
      catch { case _: RowMemoryExhausted if hasRoom(leftTime) => rows.addTo(candidates) }
      held += 1
      seen += 1
      rows.advance()
      if (held >= enough) choose(leftTime)
    }
    choose(leftTime)
    seen
  }

  private def hasRoom(leftTime: Long): Boolean = {
    val before = candidates.size
    makeRoom()
    choose(leftTime)
    candidates.size < before
  }

  private def choose(leftTime: Long): Unit = {
    val from = candidates.size - held
    candidates.settleFrom(from)
    if (held > 1) keepChosen(from, leftTime)
  }

  /** Drops candidates from a position on that can't be in the group, whatever rows come later. */
  private def keepChosen(from: Int, leftTime: Long): Unit = {
    val chosen = bound.policy.choose(held, leftTime, i => candidates.time(from + i))
    held = if (chosen < 0) Math.min(held, bound.most) else 1
    candidates.keep(from, from + Math.max(chosen, 0), held)
  }
}
