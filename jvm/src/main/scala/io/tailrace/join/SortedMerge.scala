package io.tailrace.join

import io.tailrace.state.{LiveSection, RowBuffer, RowMemory, RunCursor}

/** Merges a chunk of rows, sorted by key and time, with sections of a key-sorted store: all sections forward at once, key
  * by key. What is held is the matches of one key, however large the chunk; each row's matches are a stretch of them.
  *
  * {{{
  *   probe rows (key, time)     (A,12:00) (A,12:10)          (C,12:05)
  *   section 1  (key, time)     (A,12:03) (A,12:40)          (B,12:01) ... (C,12:20)
  *   section 2  (key, time)     (A,12:05)                    (C,12:07)
  *
  *   window 30 min:  candidates of A: 12:03 12:05 12:40      of C: 12:07 12:20
  *                   (A,12:00) -> [12:03, 12:05]   (A,12:10) -> [12:40]   (C,12:05) -> [12:07, 12:20]
  * }}}
  *
  * @param from a match is at `probe time + from` at the least
  * @param to   and at `probe time + to` at the most
  */
final class SortedMerge(from: Long, to: Long, memory: RowMemory) extends AutoCloseable {
  import JoinWindow.saturatingAdd

  /** What the last probe's key has; its `first` and `count` say which of them the probe matches. */
  val candidates = new Candidates(memory)

  private var probes: RowBuffer = _
  private var order = new Array[Int](0)
  // Of the probes in that order: read one after the other here, all over the buffer there.
  private var probeTimes = new Array[Long](0)
  private var probePrefixes = new Array[Long](0)
  private var position = -1
  private var groupEnd = 0

  private var cursors = new Array[RunCursor](0)
  private var prefixes = new Array[Long](0)
  private var open = 0

  /** Begins with another chunk.
    *
    * @param rows   they stay as they are until the next `start` or `close`
    * @param sorted their numbers by key and time; a row with an empty key matches nothing
    */
  def start(rows: RowBuffer, sorted: Array[Int], sections: Seq[LiveSection]): Unit = {
    closeCursors()
    probes = rows
    order = sorted
    position = -1
    groupEnd = 0
    line()
    val reached = reachable(sections)
    cursors = new Array[RunCursor](reached.size)
    prefixes = new Array[Long](reached.size)
    reached.foreach { live =>
      val cursor = live.cursor()
      cursors(open) = cursor
      open += 1
      cursor.first()
      prefixes(open - 1) = cursor.keyPrefix
    }
  }

  private def line(): Unit = {
    if (probeTimes.length < order.length) {
      probeTimes = new Array[Long](order.length)
      probePrefixes = new Array[Long](order.length)
    }
    var i = 0
    while (i < order.length) {
      probeTimes(i) = probes.time(order(i))
      probePrefixes(i) = probes.keyPrefix(order(i))
      i += 1
    }
  }

  private def reachable(sections: Seq[LiveSection]): Seq[LiveSection] = {
    var earliest = Long.MaxValue
    var latest = Long.MinValue
    val anyEmpty = probes.hasEmptyKeys
    var i = 0
    while (i < order.length) {
      if (!anyEmpty || probes.keyLength(order(i)) > 0) {
        val time = probeTimes(i)
        if (time < earliest) earliest = time
        if (time > latest) latest = time
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

  /** Goes on to the next probe row. @return false if there is none */
  def next(): Boolean = position + 1 < order.length && {
    position += 1
    if (position == groupEnd) nextKey()
    val time = probeTimes(position)
    candidates.slideTo(saturatingAdd(time, from), saturatingAdd(time, to))
    true
  }

  /** The row number of the probe. */
  def probe: Int = order(position)

  private def nextKey(): Unit = {
    val row = order(position)
    groupEnd = position + 1
    val prefix = probePrefixes(position)
    while (
      groupEnd < order.length && probePrefixes(groupEnd) == prefix &&
      (probes.prefixesAreKeys || probes.compareKeys(row, order(groupEnd)) == 0)
    ) groupEnd += 1
    candidates.clear()
    if (open > 0 && (!probes.hasEmptyKeys || probes.keyLength(row) > 0)) {
      collect(
        probes.base(row),
        probes.at(row),
        prefix,
        saturatingAdd(probeTimes(position), from),
        saturatingAdd(probeTimes(groupEnd - 1), to)
      )
      candidates.settle()
    }
  }

  private def collect(base: AnyRef, at: Long, prefix: Long, earliest: Long, latest: Long): Unit = {
    var i = 0
    while (i < open) {
      // Mostly a section's next key is beyond, and the section need not be looked at.
      if (java.lang.Long.compareUnsigned(prefixes(i), prefix) > 0) i += 1
      else {
        val cursor = cursors(i)
        cursor.advanceTo(base, at)
        while (cursor.isValid && cursor.keyPrefix == prefix && cursor.compareKey(base, at) == 0) {
          if (cursor.time >= earliest && cursor.time <= latest) candidates.add(cursor.base, cursor.at)
          cursor.next()
        }
        if (cursor.isValid) {
          prefixes(i) = cursor.keyPrefix
          i += 1
        } else {
          cursor.close()
          open -= 1
          cursors(i) = cursors(open)
          prefixes(i) = prefixes(open)
        }
      }
    }
  }

  private def closeCursors(): Unit = {
    while (open > 0) {
      open -= 1
      cursors(open).close()
    }
  }

  override def close(): Unit = {
    closeCursors()
    candidates.close()
  }
}
