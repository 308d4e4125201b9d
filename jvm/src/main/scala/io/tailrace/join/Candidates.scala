package io.tailrace.join

import java.util.Arrays

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import io.tailrace.state.{RowBuffer, RowMemory}

/** The right rows of one key that its left rows may match, in the order of time, and of content where times are equal:
  * the order in which rows arrive isn't the same twice after a shuffle.
  *
  * Add rows, `settle`, then read by position. `slideTo` finds the stretch of them that a left row matches: left rows come
  * in the order of time, so no row is looked at twice.
  */
final class Candidates(memory: RowMemory) extends AutoCloseable {
  private val rows = new RowBuffer(memory)
  private var ranked = new Array[Int](64)
  private var inOrder = true
  private var latest = Long.MinValue
  private var begin = 0
  private var end = 0

  def clear(): Unit = {
    begin = 0
    end = 0
    if (!rows.isEmpty) forget()
  }

  private def forget(): Unit = {
    rows.clear()
    inOrder = true
    latest = Long.MinValue
  }

  /** Adds a copy of a row of a run. */
  def add(base: AnyRef, at: Long): Unit = added(rows.appendWithoutKey(base, at))

  /** Adds a row that is only a value. */
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
    if (rows.size <= Candidates.Few) insertionSort() else ranked = sortMany()
    inOrder = true
  }

  def size: Int = rows.size

  /** Moves on to the rows at `lower` at the least and at `upper` at the most; neither may go back before `clear`. */
  def slideTo(lower: Long, upper: Long): Unit = {
    while (begin < size && time(begin) < lower) begin += 1
    if (end < begin) end = begin
    while (end < size && time(end) <= upper) end += 1
  }

  /** The rows that it has moved to: `count` of them, from position `first` on. */
  def first: Int = begin
  def count: Int = end - begin

  def time(position: Int): Long = rows.time(ranked(position))

  /** Where the row is: see [[io.tailrace.state.RowLayout]]. */
  def at(position: Int): Long = rows.at(ranked(position))
  def base(position: Int): AnyRef = rows.base(ranked(position))

  def valueOffset(position: Int): Long = rows.valueOffset(ranked(position))
  def valueLength(position: Int): Int = rows.valueLength(ranked(position))

  /** @return `row`, with the row's value for its bytes */
  def pointTo(row: UnsafeRow, position: Int): UnsafeRow = {
    row.pointTo(base(position), valueOffset(position), valueLength(position))
    row
  }

  private def insertionSort(): Unit = {
    var i = 1
    while (i < rows.size) {
      val row = ranked(i)
      var j = i - 1
      while (j >= 0 && compare(ranked(j), row) > 0) {
        ranked(j + 1) = ranked(j)
        j -= 1
      }
      ranked(j + 1) = row
      i += 1
    }
  }

  /** A hot key. Boxed row numbers are little beside its rows, and the library's sort takes sorted stretches as they are. */
  private def sortMany(): Array[Int] = {
    val boxed = Array.tabulate[Integer](rows.size)(i => i)
    Arrays.sort(boxed, (a: Integer, b: Integer) => compare(a, b))
    boxed.map(_.intValue)
  }

  private def compare(a: Int, b: Int): Int = {
    val byTime = java.lang.Long.compare(rows.time(a), rows.time(b))
    if (byTime != 0) byTime else rows.compareValues(a, b)
  }

  override def close(): Unit = rows.close()
}

object Candidates {
  private val NoKey = new Array[Byte](0)
  private val Few = 32
}
