package io.tailrace.label

import io.tailrace.label.JoinWindow.saturatingAdd
import io.tailrace.state.{LiveSection, RowBuffer}

/** A chunk of rows that look for their matches, in the order of key and time. A position is a place in that order. */
private[label] final class Probes {
  private var rows: RowBuffer = _
  private var order = new Array[Int](0)
  // Copies in that order: reading them here is sequential, reading them in the buffer is not.
  private var lined = new Array[Long](0)
  private var prefixes = new Array[Long](0)

  /** @param chunk  stays as it is until the next `start`
    * @param sorted row numbers in the order of key and time
    */
  def start(chunk: RowBuffer, sorted: Array[Int]): Unit = {
    rows = chunk
    order = sorted
    if (lined.length < order.length) {
      lined = new Array[Long](order.length)
      prefixes = new Array[Long](order.length)
    }
    var i = 0
    while (i < order.length) {
      lined(i) = rows.time(order(i))
      prefixes(i) = rows.keyPrefix(order(i))
      i += 1
    }
  }

  def size: Int = order.length

  /** The row number at a position. */
  def row(position: Int): Int = order(position)

  /** The row numbers from a position on. */
  def rowsFrom(position: Int, until: Int = Int.MaxValue): Array[Int] = order.slice(position, until)

  def time(position: Int): Long = lined(position)
  def keyPrefix(position: Int): Long = prefixes(position)

  /** A row's place: see [[io.tailrace.state.RowLayout]]. */
  def base(position: Int): AnyRef = rows.base(order(position))
  def at(position: Int): Long = rows.at(order(position))

  /** A row without a key matches nothing. */
  def hasKey(position: Int): Boolean = !rows.hasEmptyKeys || rows.keyLength(order(position)) > 0

  /** The position behind the last row of the key of a row. */
  def endOfKey(position: Int): Int = {
    val prefix = prefixes(position)
    var end = position + 1
    while (
      end < order.length && prefixes(end) == prefix &&
      (rows.prefixesAreKeys || rows.compareKeys(order(position), order(end)) == 0)
    ) end += 1
    end
  }

  /** The number of rows of a key that are before the first one whose time `reaches`. All behind it reach, too. */
  def firstOfKey(start: Int, end: Int)(reaches: Long => Boolean): Int = {
    var low = start
    var high = end
    while (low < high) {
      val middle = (low + high) >>> 1
      if (reaches(lined(middle))) high = middle else low = middle + 1
    }
    low - start
  }

  /** The sections that may hold a match at a row's time plus `from` to plus `to`. */
  def reachable(sections: Seq[LiveSection], from: Long, to: Long): Seq[LiveSection] = {
    var earliest = Long.MaxValue
    var latest = Long.MinValue
    var i = 0
    while (i < order.length) {
      if (hasKey(i)) {
        earliest = Math.min(earliest, lined(i))
        latest = Math.max(latest, lined(i))
      }
      i += 1
    }
    if (earliest > latest) Nil
    else {
      sections.filter { live =>
        live.section.maxTime >= saturatingAdd(earliest, from) &&
        live.section.minTime <= saturatingAdd(latest, to)
      }
    }
  }
}
