package io.tailrace.label

import java.util.PriorityQueue

import io.tailrace.common.RowMemoryExhausted
import io.tailrace.label.JoinWindow.saturatingAdd
import io.tailrace.state._

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
  * A key may have more rows than there is memory for: see [[LargeKeys]].
  *
  * @param from     a match is at least at `probe time + from`
  * @param to       and at most at `probe time + to`
  * @param most     bytes that a key's matches may take; they never take more than half of the memory
  * @param bound    the most that a probe can choose from
  * @param late     which right rows a probe doesn't get, because they came late; only `ByWindow`
  * @param gone     rows that nobody gets; not `ByWindow`
  * @param notes    of the rows that a probe gets; only `ByWindow`
  */
final class SortedMerge(
    from: Long,
    to: Long,
    memory: RowMemory,
    most: Long = Long.MaxValue / 4,
    bound: MatchBound = MatchBound.None,
    large: LargeKeys = LargeKeys.ByWindow,
    late: LateRights = LateRights.None,
    gone: Option[GoneRows] = None,
    notes: Option[MatchSink] = None
) extends AutoCloseable {
  import JoinWindow.saturatingAdd

  // The matches of the last probe's key; of some of its probes, without those that came too late for them.
  private val held = new Candidates(memory)
  private lazy val timely = new Candidates(memory)
  private var shown = held

  /** The matches of the last probe, and others of its key. Its `first` and `count` say which are the probe's. */
  def candidates: Candidates = shown

  private val probes = new Probes
  private var position = -1
  private var groupStart = 0
  private var groupEnd = 0

  private val share = new MemoryShare(memory, most)
  // The rest of the key's rows is still to come, in further pieces.
  private var unfinished = false
  private var apart = false
  private var pieces = 0L
  private val window = new MatchWindow(bound, held)
  private var windowed: Option[SectionRows] = None
  // Probes of the key after this time need other rows than those that the window reads.
  private var windowedThrough = 0L
  // For a key whose rows aren't all held.
  private var tally: MatchTally = _
  private var matches = 0
  // Probes of the key up to this time may not get all rows that are held.
  private var hiddenThrough = LateRights.All
  private var reached: Seq[LiveSection] = Nil
  private val noting = notes.orNull
  // Of the rows of the key that are held, those before this position have been looked at.
  private var noted = 0

  private var cursors = new Array[KeyCursor](0)
  private var prefixes = new Array[Long](0)
  private var open = 0
  private val sought = new SoughtKey

  /** Begins with another chunk.
    *
    * @param rows   the probes; they stay as they are until the next `start` or `close`
    * @param sorted their numbers in the order of key and time; a row with an empty key matches nothing
    */
  def start(rows: RowBuffer, sorted: Array[Int], sections: Seq[LiveSection]): Unit = {
    closeCursors()
    held.clear()
    shown = held
    share.reset()
    unfinished = false
    probes.start(rows, sorted)
    position = -1
    groupEnd = 0
    reached = probes.reachable(sections, from, to)
    LiveSection.prepare(reached)
    cursors = new Array[KeyCursor](reached.size)
    prefixes = new Array[Long](reached.size)
    reached.foreach { live =>
      cursors(open) = new KeyCursor(live)
      prefixes(open) = cursors(open).keyPrefix
      open += 1
    }
  }

  /** Moves to the next probe row. @return false if there is none
    * @throws RowMemoryExhausted if the rows of one probe have no room; start again with [[rest]]
    */
  def next(): Boolean = {
    if (unfinished && position + 1 == groupEnd) nextPiece()
    position + 1 < probes.size && {
      position += 1
      if (position == groupEnd) nextKey()
      val time = probes.time(position)
      if (windowed.isEmpty) {
        held.slideTo(saturatingAdd(time, from), saturatingAdd(time, to))
        if (time <= hiddenThrough) showTimely(time) else shown = held
        matches = shown.count
        if (noting != null && matches > 0) note()
      } else {
        if (time > windowedThrough) openWindow()
        matches += tally.more(position)
        window.slideTo(time, saturatingAdd(time, from), saturatingAdd(time, to))
      }
      true
    }
  }

  /** Notes the rows of the probe; those that are held once. */
  private def note(): Unit = {
    val areAll = shown eq held
    val end = shown.first + shown.count
    var i = if (areAll) Math.max(shown.first, noted) else shown.first
    if (i < end) noting.leftIs(probes.base(position), probes.at(position))
    while (i < end) {
      noting.add(shown.time(i), shown.seq(i))
      i += 1
    }
    if (areAll) noted = Math.max(noted, end)
  }

  /** The row number of the probe. */
  def probe: Int = probes.row(position)

  /** The number of rows that match the probe; [[candidates]] holds those that it can choose from. */
  def matched: Int = matches

  /** The matches of the probe. @param twin see [[Matches]] */
  def matchesOf(twin: Int): Matches = Matches(shown, shown.first, shown.count, matches, twin)

  /** The row numbers of the probes from this one on. */
  def rest: Array[Int] = probes.rowsFrom(Math.max(0, position))

  /** True if not all rows of the probe's key are held, but only those that the probe can choose from. */
  def isWindowed: Boolean = windowed.nonEmpty

  /** True if the probe's key has more rows than there is memory for, and they are left to the caller. */
  def isApart: Boolean = apart

  /** Leaves out the probes of this one's key that are left. */
  def skipKey(): Unit = position = groupEnd - 1

  /** Grows whenever the rows of [[candidates]] are replaced. */
  def piece: Long = pieces

  /** The row numbers of the probes of this one's key from it on. */
  def restOfKey: Array[Int] = probes.rowsFrom(position, groupEnd)

  private def nextKey(): Unit = {
    groupStart = position
    groupEnd = probes.endOfKey(position)
    closeWindow()
    held.clear()
    pieces += 1
    noted = 0
    shown = held
    hiddenThrough = LateRights.All
    apart = false
    if (open > 0 && probes.hasKey(position)) {
      unfinished = !collect(counting = false)
      if (!unfinished || large == LargeKeys.InPieces) held.settle()
      else if (large == LargeKeys.ByWindow) readByWindow()
      else leaveApart()
    }
  }

  /** Leaves out what the probe doesn't get. */
  private def showTimely(time: Long): Unit = {
    timely.clear()
    var i = held.first
    while (i < held.first + held.count) {
      if (late.hiddenThrough(held.seq(i), held.time(i)) < time) timely.add(held.base(i), held.at(i))
      i += 1
    }
    timely.settle()
    timely.slideTo(Long.MinValue, Long.MaxValue)
    shown = timely
  }

  private def earliest: Long = saturatingAdd(probes.time(groupStart), from)
  private def latest: Long = saturatingAdd(probes.time(groupEnd - 1), to)

  private def nextPiece(): Unit = {
    held.clear()
    pieces += 1
    unfinished = !collect(counting = false)
    held.settle()
    position = groupStart - 1
    // Not a new key: the group's end stays where it is.
  }

  private def leaveApart(): Unit = {
    unfinished = false
    apart = true
    held.clear()
  }

  /** Leaves the key's rows on disk but for one window. Counts all of them, those that have been read too. */
  private def readByWindow(): Unit = {
    unfinished = false
    tally = new MatchTally(probes, groupStart, groupEnd, from, to)
    matches = 0
    if (noting != null) noting.leftIs(probes.base(groupStart), probes.at(groupStart))
    var i = 0
    while (i < held.size) {
      tell(held.time(i), held.seq(i), late.hiddenThrough(held.seq(i), held.time(i)))
      i += 1
    }
    held.clear()
    collect(counting = true)
    openWindow()
  }

  /** Counts a row for the probes of the key that get it. */
  private def tell(time: Long, seq: Long, hiddenThrough: Long): Unit =
    if (tally.count(time, hiddenThrough) && noting != null) noting.add(time, seq)

  /** Reads the rows for the probe and for those after it that get the same late ones. */
  private def openWindow(): Unit = {
    closeWindow()
    val time = probes.time(position)
    windowedThrough = late.sameThrough(time)
    val (base, at) = (probes.base(groupStart), probes.at(groupStart))
    val rows = new SectionRows(base, at, earliest, latest, reached, late.hiddenThrough(_) >= time)
    windowed = Some(rows)
    window.start(rows)
  }

  /** Takes the rows of the key, from where the cursors are on.
    *
    * @param counting whether the rows are only counted
    * @return false if they don't fit: the cursors are at the rows that are left
    */
  private def collect(counting: Boolean): Boolean =
    try collectAll(counting, probes.base(groupStart), probes.at(groupStart))
    catch { case _: RowMemoryExhausted if !counting && held.size > 0 => false }

  private def collectAll(counting: Boolean, base: AnyRef, at: Long): Boolean = {
    val prefix = probes.keyPrefix(groupStart)
    sought.set(base, at)
    val (first, last) = (earliest, latest)
    var i = 0
    while (i < open) {
      // A section whose next key is greater is skipped, which is the usual case.
      if (java.lang.Long.compareUnsigned(prefixes(i), prefix) > 0) i += 1
      else {
        val cursor = cursors(i)
        if (cursor.advanceTo(sought)) {
          val rows = cursor.rows
          while (rows.isValid && rows.keyPrefix == prefix && rows.compareKey(base, at) == 0) {
            if (rows.time >= first && rows.time <= last) {
              if (counting) tell(rows.time, rows.seq, late.hiddenThrough(rows))
              else {
                if (share.isFull(held.bytes) && held.size > 0) return false
                if (gone.isEmpty) held.add(rows.base, rows.at)
                else if (!gone.get.contains(rows.seq)) held.addOf(cursor.live, rows.base, rows.at)
                hiddenThrough = Math.max(hiddenThrough, late.hiddenThrough(rows))
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
    held.release()
    timely.release()
  }

  override def close(): Unit = release()
}

/** The ways in which a [[SortedMerge]] treats a key that has more rows than there is memory for. */
sealed abstract class LargeKeys

object LargeKeys {

  /** Each probe comes once, with all rows that it can choose from: they are read again, by time, a window at a time
    * ([[MatchWindow]]).
    */
  case object ByWindow extends LargeKeys

  /** The rows are read in pieces, in any order, and the key's probes come again for each piece. */
  case object InPieces extends LargeKeys

  /** The key's probes come without rows: the caller reads them. */
  case object Apart extends LargeKeys
}

/** The rows of one key in some key-sorted sections, from `earliest` to `latest`, in the order of time. Each section has
  * them in that order. A section is opened when its time comes: a key with very many rows has them in many sections.
  *
  * {{{
  *   sections    12:00 .. 12:59    13:00 .. 13:59    14:00 .. 14:59
  *   at 13:20    closed            open              still to be opened
  * }}}
  *
  * @param base     a row with the key, which stays where it is
  * @param isHidden whether a row is left out; called when the rows of its section before it are done
  */
private[label] final class SectionRows(
    base: AnyRef,
    at: Long,
    earliest: Long,
    latest: Long,
    sections: Seq[LiveSection],
    isHidden: RunCursor => Boolean
) extends KeyedRows
    with CursorRows
    with AutoCloseable {
  import SectionRows.Source

  private val later = sections
    .filter(live => live.section.maxTime >= earliest && live.section.minTime <= latest)
    .sortBy(_.section.minTime)
    .iterator
    .buffered
  private val queue =
    new PriorityQueue[Source](
      11,
      (a: Source, b: Source) => java.lang.Long.compare(a.cursor.time, b.cursor.time)
    )

  try open()
  catch {
    case e: Throwable =>
      close()
      throw e
  }

  /** Opens the sections that may have the first row. */
  private def open(): Unit =
    while (later.hasNext && (queue.isEmpty || later.head.section.minTime <= time)) {
      val live = later.next()
      val cursor = live.cursor()
      try {
        cursor.seekPageAt(base, at, earliest, 0L)
        while (cursor.isValid && isBefore(cursor)) cursor.next()
        enqueue(new Source(live, cursor))
      } catch {
        case e: Throwable =>
          cursor.close()
          throw e
      }
    }

  private def isBefore(cursor: RunCursor): Boolean = {
    val byKey = cursor.compareKey(base, at)
    byKey < 0 || byKey == 0 && cursor.time < earliest
  }

  private def isDue(cursor: RunCursor): Boolean =
    cursor.isValid && cursor.compareKey(base, at) == 0 && cursor.time <= latest

  private def enqueue(source: Source): Unit = {
    import source.cursor
    while (isDue(cursor) && isHidden(cursor)) cursor.next()
    if (isDue(cursor)) queue.add(source) else cursor.close()
  }

  override def isEmpty: Boolean = queue.isEmpty
  override def time: Long = head.time
  override def head: RunCursor = queue.peek().cursor
  override def headSection: LiveSection = queue.peek().live

  override def addTo(candidates: Candidates): Unit = candidates.add(head.base, head.at)

  override def drop(): Unit = {
    val source = queue.poll()
    source.cursor.next()
    enqueue(source)
    open()
  }

  override def advance(): Unit = drop()

  override def close(): Unit = {
    queue.forEach(_.cursor.close())
    queue.clear()
  }
}

private object SectionRows {
  private final class Source(val live: LiveSection, val cursor: RunCursor)
}

/** The number of rows that match each probe of a key, where the rows aren't held: each is counted as it is read.
  *
  * @param start,end the positions of the key's probes; the last one is before `end`
  * @param from      see [[SortedMerge]]
  */
private[label] final class MatchTally(probes: Probes, start: Int, end: Int, from: Long, to: Long) {
  private val changes = new Array[Int](end - start + 1)

  /** Counts a row for the probes that it matches, which are neighbours.
    *
    * @param hiddenThrough probes up to this time don't get it
    * @return whether a probe gets it
    */
  def count(time: Long, hiddenThrough: Long): Boolean = {
    val first =
      probes.firstOfKey(start, end)(probe => saturatingAdd(probe, to) >= time && probe > hiddenThrough)
    val last = probes.firstOfKey(start, end)(probe => saturatingAdd(probe, from) > time)
    if (first < last) {
      changes(first) += 1
      changes(last) -= 1
    }
    first < last
  }

  /** The number of rows that match a probe beyond those of the previous one. */
  def more(position: Int): Int = changes(position - start)
}

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

  /** The number of rows of a key that are before the first one whose time `reaches`. All after it reach, too. */
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
