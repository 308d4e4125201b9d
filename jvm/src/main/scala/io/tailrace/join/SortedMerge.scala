package io.tailrace.join

import io.tailrace.state.{LiveSection, RowBuffer, RunCursor}

/** Merges a chunk of rows, sorted by key and time, with sections of a key-sorted store: one forward pass over each
  * section that the chunk's times can reach. A section is read entry by entry where the chunk is dense, and skipped over
  * with seeks where it is sparse.
  *
  * {{{
  *   probe rows (key, time)     (A,12:00) (A,12:10) (C,12:05)
  *   section    (key, time)     (A,12:03) (A,12:40) (B,12:01) (B,12:02) ... (C,12:20)
  *                               match     too late  -- passed over --      match
  * }}}
  *
  * @param from a match is at `probe time + from` at the least
  * @param to   and at `probe time + to` at the most
  */
final class SortedMerge(from: Long, to: Long) {
  import JoinWindow.saturatingAdd
  import SortedMerge._

  /** @param order the chunk's rows by key and time; rows with an empty key are passed over
    * @param found gets the match's entry; it is asked once per match and probe key
    * @param hit   (probe row, row number that `found` returned)
    */
  def run(probes: RowBuffer, order: Array[Int], sections: Seq[LiveSection])(
      found: RunCursor => Int
  )(hit: (Int, Int) => Unit): Unit = {
    val n = order.length
    var start = 0
    while (start < n && probes.keyLength(order(start)) == 0) start += 1
    if (start < n) {
      var earliest = Long.MaxValue
      var latest = Long.MinValue
      var i = start
      while (i < n) {
        earliest = Math.min(earliest, probes.time(order(i)))
        latest = Math.max(latest, probes.time(order(i)))
        i += 1
      }
      sections.foreach { live =>
        if (
          live.section.maxTime >= saturatingAdd(earliest, from) &&
          live.section.minTime <= saturatingAdd(latest, to)
        ) {
          val cursor = live.cursor()
          try mergeOne(probes, order, start, cursor)(found)(hit)
          finally cursor.close()
        }
      }
    }
  }

  private var matchTimes = new Array[Long](64)
  private var matchRows = new Array[Int](64)

  private def mergeOne(probes: RowBuffer, order: Array[Int], start: Int, cursor: RunCursor)(
      found: RunCursor => Int
  )(hit: (Int, Int) => Unit): Unit = {
    val n = order.length
    var key = new Array[Byte](64)
    cursor.first()
    var i = start
    while (i < n && cursor.isValid) {
      var j = i + 1
      while (j < n && probes.compareKeys(order(i), order(j)) == 0) j += 1
      if (compare(probes, order(i), cursor) > 0) {
        var steps = 0
        while (cursor.isValid && steps < StepsBeforeSeek && compare(probes, order(i), cursor) > 0) {
          cursor.next()
          steps += 1
        }
        if (cursor.isValid && compare(probes, order(i), cursor) > 0) {
          if (key.length < probes.keyLength(order(i))) key = new Array[Byte](probes.keyLength(order(i)) * 2)
          probes.copyKey(order(i), key)
          cursor.seekKey(key, probes.keyLength(order(i)))
        }
      }
      val count = collect(probes, order, i, j, cursor)(found)
      if (count > 0) pair(probes, order, i, j, count)(hit)
      i = j
    }
  }

  private def compare(probes: RowBuffer, row: Int, cursor: RunCursor): Int = {
    val byPrefix = java.lang.Long.compareUnsigned(probes.keyPrefix(row), cursor.keyPrefix)
    // Mostly the prefix decides, and the bytes of the entry's key need not be fetched.
    if (byPrefix != 0) byPrefix
    else if (probes.keyLength(row) <= 8 && cursor.keyLength <= 8) {
      Integer.compare(probes.keyLength(row), cursor.keyLength)
    } else probes.compareKeyTo(row, cursor.keyBytes, cursor.keyLength, cursor.keyPrefix)
  }

  /** Entries of the probe rows' key that at least one of them may match; moves the cursor past the key. */
  private def collect(probes: RowBuffer, order: Array[Int], i: Int, j: Int, cursor: RunCursor)(
      found: RunCursor => Int
  ): Int = {
    val earliest = saturatingAdd(probes.time(order(i)), from)
    val latest = saturatingAdd(probes.time(order(j - 1)), to)
    var count = 0
    while (cursor.isValid && compare(probes, order(i), cursor) == 0) {
      if (cursor.time >= earliest && cursor.time <= latest) {
        if (count == matchTimes.length) {
          matchTimes = java.util.Arrays.copyOf(matchTimes, count * 2)
          matchRows = java.util.Arrays.copyOf(matchRows, count * 2)
        }
        matchTimes(count) = cursor.time
        matchRows(count) = found(cursor)
        count += 1
      }
      cursor.next()
    }
    count
  }

  /** Both sides go up in time, so the first match of a row is never before that of the row ahead of it. */
  private def pair(probes: RowBuffer, order: Array[Int], i: Int, j: Int, count: Int)(
      hit: (Int, Int) => Unit
  ): Unit = {
    var first = 0
    var x = i
    while (x < j) {
      val time = probes.time(order(x))
      val lower = saturatingAdd(time, from)
      val upper = saturatingAdd(time, to)
      while (first < count && matchTimes(first) < lower) first += 1
      var y = first
      while (y < count && matchTimes(y) <= upper) {
        hit(order(x), matchRows(y))
        y += 1
      }
      x += 1
    }
  }
}

object SortedMerge {

  /** A seek costs about as much as eight steps (`adr/001`). */
  private val StepsBeforeSeek = 8
}
