package io.tailrace.asof

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.unsafe.Platform

import io.tailrace.common.{Mark, MemoryErrors}
import io.tailrace.join.{JoinColumns, LeftRowWriter}
import io.tailrace.state._

/** Finds for each row of a chunk, sorted by key and time, the newest right row at or before a point of time.
  * It goes through all sections at once, key by key, and holds one right row.
  *
  * {{{
  *   points (key, time)    (A,12:04) (A,12:10)          (C,12:05)
  *   section 1             (A,12:03) (A,12:40)          (B,12:01)
  *   section 2             (A,12:01) (A,12:05)          (C,11:00)
  *
  *   (A,12:04) -> (A,12:03)   (A,12:10) -> (A,12:05)   (C,12:05) -> (C,11:00)
  * }}}
  *
  * A key may have any number of rows in a section: it seeks the page with the one that it looks for.
  *
  * @param window from left time to point, and how old a right row may be there
  */
private[asof] final class AsOfMerge(window: AsOfWindow) extends AutoCloseable {

  /** The right row of the last probe. */
  val newest = new NewestRow

  private var probes: RowBuffer = _
  private var order = new Array[Int](0)
  private var position = -1
  // Sections with the newest rows come first: older ones often needn't be read.
  private var sections = new Array[AsOfSection](0)
  private val sought = new SoughtKey

  /** Begins with another chunk.
    *
    * @param rows   left rows; they stay as they are until the next `start` or `close`
    * @param sorted their numbers in the order of key and time; a row with an empty key finds nothing
    * @param right  sections with the right rows
    */
  def start(rows: RowBuffer, sorted: Array[Int], right: Seq[LiveSection]): Unit = {
    close()
    probes = rows
    order = sorted
    position = -1
    newest.clear()
    val reached = reachable(right).sortBy(-_.section.maxTime)
    LiveSection.prepare(reached)
    sections = new Array[AsOfSection](reached.size)
    reached.indices.foreach(i => sections(i) = new AsOfSection(reached(i)))
  }

  private def reachable(right: Seq[LiveSection]): Seq[LiveSection] = {
    var first = Long.MaxValue
    var last = Long.MinValue
    order.foreach { row =>
      if (probes.keyLength(row) > 0) {
        val time = probes.time(row)
        if (time < first) first = time
        if (time > last) last = time
      }
    }
    if (first > last) Nil
    else {
      val (oldest, point) = (window.oldest(first), window.point(last))
      right.filter(live => live.section.minTime <= point && live.section.maxTime >= oldest)
    }
  }

  /** Advances to the next left row. @return false if there is none */
  def next(): Boolean = position + 1 < order.length && {
    position += 1
    val row = order(position)
    val isOther = position == 0 || probes.compareKeys(order(position - 1), row) != 0
    if (isOther) newest.clear()
    if (probes.keyLength(row) > 0) find(probes.base(row), probes.at(row), probes.time(row), isOther)
    true
  }

  /** The number of the left row. */
  def probe: Int = order(position)

  /** True if it has a right row: [[newest]]. */
  def hasFound: Boolean = !newest.isEmpty && window.takes(probes.time(probe), newest.time)

  private def find(base: AnyRef, at: Long, time: Long, isOther: Boolean): Unit = {
    val point = window.point(time)
    val oldest = window.oldest(time)
    val prefix = RowLayout.keyPrefix(base, at)
    if (isOther) sought.set(base, at)
    var i = 0
    while (i < sections.length) {
      val section = sections(i)
      if (isOther) section.begin()
      if (section.mayHave(prefix, point, oldest, newest)) section.find(sought, point, newest)
      i += 1
    }
  }

  override def close(): Unit = {
    sections.foreach(section => if (section != null) section.close())
    sections = new Array[AsOfSection](0)
  }
}

/** A section, for keys and points of time that ascend. */
private final class AsOfSection(live: LiveSection) extends AutoCloseable {
  private val cursor = new KeyCursor(live)
  private val section = live.section
  // The state of the current key: whether it has been looked up, and whether the section has it.
  private var isAsked = false
  private var isHere = false

  /** Advances to another key. */
  def begin(): Unit = {
    if (isHere) cursor.settle()
    isAsked = false
    isHere = false
  }

  /** True if it may have a newer row of the key than the one that was found, and none that is too old. */
  def mayHave(prefix: Long, point: Long, oldest: Long, newest: NewestRow): Boolean =
    section.minTime <= point && section.maxTime >= oldest &&
      (newest.isEmpty || section.maxTime >= newest.time) &&
      (if (isAsked) isHere
       else !cursor.isAtEnd && java.lang.Long.compareUnsigned(cursor.keyPrefix, prefix) <= 0)

  def find(key: SoughtKey, point: Long, newest: NewestRow): Unit = {
    if (!isAsked) {
      isAsked = true
      isHere = cursor.advanceTo(key)
    }
    if (isHere) {
      val (base, at) = (key.base, key.at)
      val rows = cursor.rows
      if (rows.isValid && rows.compareKey(base, at) == 0 && rows.time <= point)
        look(rows, base, at, point, newest)
    }
  }

  /** Starts at a row of the key that isn't after the point, and ends at the last such row. */
  private def look(rows: RunCursor, base: AnyRef, at: Long, point: Long, newest: NewestRow): Unit = {
    // Then the rest of the page is the key's, and the row may be on a page far from here.
    val isFar = rows.endsWithin(base, at, point)
    if (isFar) rows.seekPageAt(base, at, point, AsOfSection.LastSeq)
    val isKeyFirst = rows.compareKey(base, at) == 0
    val firstTime = rows.time
    var found = -1L
    var last = -1L
    var time = Long.MinValue
    var goesOn = true
    while (goesOn) {
      val order = rows.compareKey(base, at)
      if (order > 0 || (order == 0 && rows.time > point)) goesOn = false
      else {
        if (order == 0) {
          last = rows.place
          if (found < 0 || rows.time > time) {
            found = last
            time = rows.time
          }
        }
        if (rows.isLastOnPage) goesOn = false else rows.next()
      }
    }
    if (isFar && isKeyFirst && firstTime == time) lookThrough(rows, base, at, time, newest)
    else {
      rows.backTo(found)
      newest.offer(rows)
      while (rows.place != last) {
        rows.next()
        newest.offer(rows)
      }
    }
  }

  /** The rows of one time may be on several pages: all are looked at. */
  private def lookThrough(rows: RunCursor, base: AnyRef, at: Long, time: Long, newest: NewestRow): Unit = {
    rows.seekPageAt(base, at, time, 0L)
    def isBefore = rows.compareKey(base, at) < 0 || rows.time < time
    while (rows.isValid && rows.compareKey(base, at) <= 0 && isBefore) rows.next()
    while (rows.isValid && rows.compareKey(base, at) == 0 && rows.time == time) {
      newest.offer(rows)
      rows.next()
    }
  }

  override def close(): Unit = cursor.close()
}

private object AsOfSection {

  /** Sequence numbers compare without a sign. */
  private val LastSeq = -1L
}

/** A copy of the newest of the offered right rows. Rows of the same time are ordered by their content, because a
  * shuffle brings them in another order each time.
  */
private[asof] final class NewestRow {
  private var bytes = new Array[Byte](1024)
  private var full = false
  private var rowTime = 0L

  def isEmpty: Boolean = !full
  def clear(): Unit = full = false

  def time: Long = rowTime

  def offer(row: RunCursor): Unit =
    if (!full || row.time > rowTime || row.time == rowTime && isBefore(row.base, row.at)) {
      val length = RowLayout.length(row.base, row.at)
      makeRoom(length)
      Platform.copyMemory(row.base, row.at, bytes, NewestRow.Start, length)
      full = true
      rowTime = row.time
    }

  /** Offers a right row that has no key. */
  def offer(time: Long, value: AnyRef, offset: Long, length: Int): Unit =
    if (!full || time >= rowTime) {
      val row = new Array[Byte](RowLayout.length(0, length).toInt)
      RowLayout.writeHeader(row, NewestRow.Start, time, 0L, 0, length)
      Platform.copyMemory(value, offset, row, RowLayout.valueAt(row, NewestRow.Start), length.toLong)
      if (!full || time > rowTime || isBefore(row, NewestRow.Start)) {
        bytes = row
        full = true
        rowTime = time
      }
    }

  private def isBefore(other: AnyRef, otherAt: Long): Boolean =
    RowLayout.compareValues(bytes, NewestRow.Start, other, otherAt) < 0

  private def makeRoom(length: Long): Unit =
    if (bytes.length < length) bytes = new Array[Byte](Math.toIntExact(Math.max(length, bytes.length * 2L)))

  /** Where its value is, in the bytes of [[RowLayout]]. */
  def base: AnyRef = bytes
  def valueOffset: Long = RowLayout.valueAt(bytes, NewestRow.Start)
  def valueLength: Int = RowLayout.valueLength(bytes, NewestRow.Start)
}

private object NewestRow {
  private val Start = Platform.BYTE_ARRAY_OFFSET.toLong
}

/** Writes a row of an as-of join: the left columns, the right row as a struct, or null, and `_mark` if late rows are
  * emitted with it.
  */
private[asof] final class AsOfWriter(columns: JoinColumns, memory: RowMemory)
    extends LeftRowWriter(columns, memory) {
  private val markAt = 1
  private val hasMarks = columns.added.size > markAt

  /** @return a row that is valid until the next one */
  def write(left: UnsafeRow, found: NewestRow): UnsafeRow = {
    val at = restAt(left)
    val length = found.valueLength
    if (at.toLong + length > LeftRowWriter.MostBytes) throw MemoryErrors.groupTooLarge(1, at.toLong + length)
    ensure(at + length)
    writeLeft(left)
    putAdded(0, offsetAndSize(at, length))
    copy(found.base, found.valueOffset, at, length)
    if (hasMarks) writeNull(markAt)
    written(at + length)
  }

  /** A left row without a right row. */
  def alone(left: UnsafeRow): UnsafeRow = {
    val at = restAt(left)
    ensure(at)
    writeLeft(left)
    writeNull(0)
    if (hasMarks) writeNull(markAt)
    written(at)
  }

  /** A late left row. */
  def late(left: UnsafeRow): UnsafeRow =
    if (!hasMarks) alone(left)
    else {
      val at = restAt(left)
      val text = Mark.LateLeft.text
      val end = at + RowLayout.padded(text.numBytes).toInt
      ensure(end)
      writeLeft(left)
      writeNull(0)
      put(end - 8, 0L)
      copy(text.getBaseObject, text.getBaseOffset, at, text.numBytes)
      putAdded(markAt, offsetAndSize(at, text.numBytes))
      written(end)
    }
}
