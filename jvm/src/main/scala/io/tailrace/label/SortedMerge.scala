package io.tailrace.label

import java.util.Arrays

import io.tailrace.common.RowMemoryExhausted
import io.tailrace.state.{KeyCursor, LiveSection, LocalRun, MemoryShare, PageFilters, RowBuffer, RowMemory}

/** Merges a chunk of rows, sorted by key and time, with sections of a key-sorted store. It goes through all
  * sections at once, key by key. It holds the matches of one key, however large the chunk. Each row's
  * matches are a stretch of them.
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
  * A key may have more rows than there is memory for. If each probe has to come once, with all rows that it
  * can choose from, the key's rows are read again, by time, a window at a time ([[MatchWindow]]). If any
  * order will do (`inPieces`), they are read in pieces, and the key's probes come again for each piece.
  *
  * @param from     a match is at `probe time + from` at the least
  * @param to       and at `probe time + to` at the most
  * @param most     bytes that a key's matches may take; they never take more than half of the memory
  * @param bound    the most that a probe can choose from
  */
final class SortedMerge(
    from: Long,
    to: Long,
    memory: RowMemory,
    most: Long = Long.MaxValue / 4,
    bound: MatchBound = MatchBound.None,
    inPieces: Boolean = false
) extends AutoCloseable {
  import JoinWindow.saturatingAdd

  /** The matches of the last probe's key. Its `first` and `count` say which of them the probe matches. */
  val candidates = new Candidates(memory)

  private var probes: RowBuffer = _
  private var order = new Array[Int](0)
  // Copies in that order: reading them here is sequential, reading them in the buffer is not.
  private var probeTimes = new Array[Long](0)
  private var probePrefixes = new Array[Long](0)
  private var position = -1
  private var groupStart = 0
  private var groupEnd = 0

  private val share = new MemoryShare(memory, most)
  // The rest of the key's rows is still to come, in further pieces.
  private var unfinished = false
  private val window = new MatchWindow(bound, candidates)
  private var windowed: Option[SectionRows] = None
  // For a key whose rows aren't all held: how many more rows match each probe than the one before.
  private var tally: Array[Int] = _
  private var matches = 0
  private var reached: Seq[LiveSection] = Nil

  private var cursors = new Array[KeyCursor](0)
  private var prefixes = new Array[Long](0)
  private var open = 0

  /** Begins with another chunk.
    *
    * @param rows   the probes; they stay as they are until the next `start` or `close`
    * @param sorted their numbers in the order of key and time; a row with an empty key matches nothing
    */
  def start(rows: RowBuffer, sorted: Array[Int], sections: Seq[LiveSection]): Unit = {
    closeCursors()
    candidates.clear()
    share.reset()
    unfinished = false
    probes = rows
    order = sorted
    position = -1
    groupEnd = 0
    line()
    reached = reachable(sections)
    LocalRun.prepare(reached)
    cursors = new Array[KeyCursor](reached.size)
    prefixes = new Array[Long](reached.size)
    reached.foreach { live =>
      cursors(open) = new KeyCursor(live)
      prefixes(open) = cursors(open).keyPrefix
      open += 1
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

  /** Goes on to the next probe row. @return false if there is none
    * @throws RowMemoryExhausted if the rows of one probe have no room; start again with [[rest]]
    */
  def next(): Boolean = {
    if (unfinished && position + 1 == groupEnd) nextPiece()
    position + 1 < order.length && {
      position += 1
      if (position == groupEnd) nextKey()
      val time = probeTimes(position)
      if (windowed.isEmpty) {
        candidates.slideTo(saturatingAdd(time, from), saturatingAdd(time, to))
        matches = candidates.count
      } else {
        matches += tally(position - groupStart)
        window.slideTo(time, saturatingAdd(time, from), saturatingAdd(time, to))
      }
      true
    }
  }

  /** The row number of the probe. */
  def probe: Int = order(position)

  /** How many rows match the probe; [[candidates]] holds those that it can choose from. */
  def matched: Int = matches

  /** The row numbers of the probes from this one on. */
  def rest: Array[Int] = Arrays.copyOfRange(order, Math.max(0, position), order.length)

  private def nextKey(): Unit = {
    val row = order(position)
    groupStart = position
    groupEnd = position + 1
    closeWindow()
    val prefix = probePrefixes(position)
    while (
      groupEnd < order.length && probePrefixes(groupEnd) == prefix &&
      (probes.prefixesAreKeys || probes.compareKeys(row, order(groupEnd)) == 0)
    ) groupEnd += 1
    candidates.clear()
    if (open > 0 && (!probes.hasEmptyKeys || probes.keyLength(row) > 0)) {
      unfinished = !collect(counting = false)
      if (unfinished && !inPieces) readByWindow()
      else candidates.settle()
    }
  }

  private def earliest: Long = saturatingAdd(probeTimes(groupStart), from)
  private def latest: Long = saturatingAdd(probeTimes(groupEnd - 1), to)

  private def nextPiece(): Unit = {
    candidates.clear()
    unfinished = !collect(counting = false)
    candidates.settle()
    position = groupStart - 1
    // Not a new key: the group's end stays where it is.
  }

  /** Leaves the key's rows on disk but for one window. Counts all of them, those that have been read too. */
  private def readByWindow(): Unit = {
    unfinished = false
    tally = new Array[Int](groupEnd - groupStart + 1)
    matches = 0
    var i = 0
    while (i < candidates.size) {
      count(candidates.time(i))
      i += 1
    }
    candidates.clear()
    collect(counting = true)
    val row = order(groupStart)
    val rows = new SectionRows(probes.base(row), probes.at(row), earliest, latest)
    windowed = Some(rows)
    rows.open(reached)
    window.start(rows)
  }

  /** Counts a row for the probes that it matches, which are neighbours. */
  private def count(time: Long): Unit = {
    tally(firstProbe(probe => saturatingAdd(probe, to) >= time)) += 1
    tally(firstProbe(probe => saturatingAdd(probe, from) > time)) -= 1
  }

  /** How many probes of the key are before the first one that `reaches`. All probes after it reach, too. */
  private def firstProbe(reaches: Long => Boolean): Int = {
    var low = groupStart
    var high = groupEnd
    while (low < high) {
      val middle = (low + high) >>> 1
      if (reaches(probeTimes(middle))) high = middle else low = middle + 1
    }
    low - groupStart
  }

  /** Takes the rows of the key, from where the cursors are on.
    *
    * @param counting whether the rows are only counted
    * @return false if there was no more room for them: the cursors are at the rows that are left
    */
  private def collect(counting: Boolean): Boolean =
    try collectAll(counting, probes.base(order(groupStart)), probes.at(order(groupStart)))
    catch { case _: RowMemoryExhausted if !counting && candidates.size > 0 => false }

  private def collectAll(counting: Boolean, base: AnyRef, at: Long): Boolean = {
    val prefix = probePrefixes(groupStart)
    val hash = PageFilters.hash(base, at)
    val (first, last) = (earliest, latest)
    var i = 0
    while (i < open) {
      // A section whose next key is greater is skipped, which is the usual case.
      if (java.lang.Long.compareUnsigned(prefixes(i), prefix) > 0) i += 1
      else {
        val cursor = cursors(i)
        if (cursor.advanceTo(base, at, hash)) {
          val rows = cursor.rows
          while (rows.isValid && rows.keyPrefix == prefix && rows.compareKey(base, at) == 0) {
            if (rows.time >= first && rows.time <= last) {
              if (counting) count(rows.time)
              else {
                if (share.isFull(candidates.bytes) && candidates.size > 0) return false
                candidates.add(rows.base, rows.at)
              }
            }
            rows.next()
          }
          cursor.settle()
        }
        if (!cursor.isAtEnd) {
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
    true
  }

  private def closeWindow(): Unit = {
    windowed.foreach(_.close())
    windowed = None
  }

  private def closeCursors(): Unit = {
    closeWindow()
    while (open > 0) {
      open -= 1
      cursors(open).close()
    }
  }

  /** Closes the sections, and gives all memory back. It can be started again. */
  def release(): Unit = {
    closeCursors()
    candidates.release()
  }

  override def close(): Unit = release()
}
