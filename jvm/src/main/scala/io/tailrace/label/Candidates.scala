package io.tailrace.label

import java.util.Arrays

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

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

  /** Changes whenever the rows are others than before, but for rows that were added behind them or dropped from
    * their beginning.
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

  /** Does so, and remembers the section that it comes from. Such rows are all settled at once. */
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
