package io.tailrace.state

import java.nio.ByteBuffer
import java.util.{Arrays, Comparator, PriorityQueue}

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.unsafe.Platform
import org.rocksdb.{RocksDBException, SstFileReaderIterator}

/** Reads one section of a run in its order: a page at a time from RocksDB, row by row within the page. It has
  * no position before `first` or a seek. At its end `isValid` is false. Where a local copy can't be read, it continues
  * in another one; an error that no copy mends is thrown.
  *
  * @param change makes the values of the newest schema; null: they are taken as they are
  */
final class RunCursor(
    local: LocalRun,
    kind: StoreKind,
    bucket: Long,
    minTime: Long = Long.MinValue,
    change: ValueChange = null
) extends AutoCloseable {
  import RunCursor._

  private var opened = local.open()
  private val page = PageBuffer.take()
  private val changed = if (change == null) null else new ChangedRow(change)
  private val entryKey = ByteBuffer.allocateDirect(RunKey.PrefixLength)
  private var bound = ByteBuffer.allocateDirect(256)
  private var closed = false

  private var valid = false
  private var rowBase: Array[Byte] = page.bytes
  private var rowAt = Start
  private var lastAt = Start
  private var rowTime = 0L
  private var rowPrefix = 0L
  private var loaded = 0L

  def isValid: Boolean = valid

  /** The position of the row, until the next move: see [[RowLayout]]. */
  def base: AnyRef = if (changed == null) rowBase else changedBytes
  def at: Long = if (changed == null) rowAt else Start

  def time: Long = rowTime
  def seq: Long = RowLayout.seq(rowBase, rowAt)
  def keyPrefix: Long = rowPrefix

  /** The number of pages it has read so far. */
  def pagesRead: Long = loaded

  def first(): Unit = {
    RunKey.writePrefix(bound, kind, bucket)
    seek()
    loadPage()
  }

  /** Goes to the first row after a time, in a time-sorted section. In a key-sorted one, goes to the first row. */
  def firstAfter(expiredThrough: Long): Unit =
    if (kind.timeSorted && expiredThrough >= minTime) seekTime(expiredThrough + 1) else first()

  /** Goes to the first row at `time` or later, in a time-sorted section. */
  def seekTime(time: Long): Unit = {
    RunKey.writeTimeBound(bound, kind, bucket, time)
    seekToPage()
    while (valid && rowTime < time) next()
  }

  /** Goes to the first row with this key or a greater one, in a key-sorted section.
    *
    * @param probe a row that has the key, in the bytes of [[RowLayout]]
    */
  def seekKey(probe: AnyRef, probeAt: Long): Unit = {
    val length = RowLayout.keyLength(probe, probeAt)
    ensureBound(length)
    RunKey.writeKeyBound(bound, kind, bucket, RowLayout.keyBytes(probe, probeAt))
    seekToPage()
    while (valid && compareKey(probe, probeAt) < 0) next()
  }

  /** Does the same, forward only. It steps if that row is near, and seeks if it is far. It doesn't read a
    * page whose last row is before the key.
    */
  def advanceTo(probe: AnyRef, probeAt: Long): Unit = {
    var pagesLeftOut = 0
    while (valid && compareKey(probe, probeAt) < 0) {
      if (compareLastKey(probe, probeAt) >= 0) {
        next()
        while (compareKey(probe, probeAt) < 0) next()
      } else if (pagesLeftOut == 0) {
        pagesLeftOut += 1
        nextPage()
      } else seekKey(probe, probeAt)
    }
  }

  private def ensureBound(keyLength: Int): Unit =
    if (bound.capacity < RunKey.FixedLength + keyLength)
      bound = ByteBuffer.allocateDirect(2 * (RunKey.FixedLength + keyLength))

  /** Goes to the page that begins with this row. */
  def seekPage(firstRow: AnyRef, firstRowAt: Long): Unit = {
    val key = RowLayout.keyBytes(firstRow, firstRowAt)
    ensureBound(key.length)
    val (time, seq) = (RowLayout.time(firstRow, firstRowAt), RowLayout.seq(firstRow, firstRowAt))
    RunKey.write(bound, kind, bucket, key, key.length, time, seq)
    seek()
    loadPage()
  }

  /** Goes to the last page that begins at or before this key, time and sequence number, in a key-sorted
    * section: rows at or before them are on it, or on pages before it. It may go back.
    */
  def seekPageAt(probe: AnyRef, probeAt: Long, time: Long, seq: Long): Unit = {
    val key = RowLayout.keyBytes(probe, probeAt)
    ensureBound(key.length)
    RunKey.write(bound, kind, bucket, key, key.length, time, seq)
    seekToPage()
  }

  /** True if the last row of this page has the key, and a time up to `time`. */
  def endsWithin(probe: AnyRef, probeAt: Long, time: Long): Boolean =
    RowLayout.time(rowBase, lastAt) <= time && compareLastKey(probe, probeAt) == 0

  def isLastOnPage: Boolean = rowAt == lastAt

  /** The row's place on this page, for [[backTo]]. */
  def place: Long = rowAt

  /** Goes back to a row of this page. */
  def backTo(place: Long): Unit = {
    rowAt = place
    loadRow()
  }

  /** True if the last row of this page is before the key. */
  def isPageBefore(probe: AnyRef, probeAt: Long): Boolean = compareLastKey(probe, probeAt) < 0

  /** Byte order of this row's key and the other row's. */
  def compareKey(other: AnyRef, otherAt: Long): Int =
    RowLayout.compareKeys(rowPrefix, rowBase, rowAt, RowLayout.keyPrefix(other, otherAt), other, otherAt)

  private def compareLastKey(other: AnyRef, otherAt: Long): Int = {
    val prefix = RowLayout.keyPrefix(rowBase, lastAt)
    RowLayout.compareKeys(prefix, rowBase, lastAt, RowLayout.keyPrefix(other, otherAt), other, otherAt)
  }

  /** Order of this row and a time and sequence number. */
  def compareTimeAndSeq(otherTime: Long, otherSeq: Long): Int = {
    val byTime = java.lang.Long.compare(rowTime, otherTime)
    if (byTime != 0) byTime else java.lang.Long.compare(seq, otherSeq)
  }

  def next(): Unit =
    if (rowAt == lastAt) nextPage()
    else {
      rowAt += RowLayout.length(rowBase, rowAt)
      loadRow()
    }

  /** A copy of the row's key. */
  def keyBytes: Array[Byte] = RowLayout.keyBytes(rowBase, rowAt)

  /** A copy of the row's value. */
  def valueBytes: Array[Byte] = {
    val bytes = if (changed == null) rowBase else changedBytes
    val start = RowLayout.valueAt(bytes, at) - Start
    Arrays.copyOfRange(bytes, start.toInt, start.toInt + RowLayout.valueLength(bytes, at))
  }

  private def changedBytes: Array[Byte] =
    try changed.of(rowBase, rowAt)
    catch { case e: ValueChange.UnfitException => throw local.corrupt(e.getMessage, e) }

  private def nextPage(): Unit = {
    entries.next()
    if (!entries.isValid) mend(() => goBehindPage())
    loadPage()
  }

  /** Goes to the last page that begins before the bound, because the row may be in it; else to the first. */
  private def seekToPage(): Unit = {
    entries.seekForPrev(bound)
    if (!entries.isValid) mend(() => entries.seekForPrev(rewound))
    if (entries.isValid && entryIsInSection()) loadPage() else first()
  }

  private def seek(): Unit = {
    entries.seek(bound)
    if (!entries.isValid) mend(() => entries.seek(rewound))
  }

  private def entries: SstFileReaderIterator = opened.entries

  /** RocksDB reads the bound up. */
  private def rewound: ByteBuffer = {
    bound.rewind()
    bound
  }

  /** No entry is at the end of the file, or where a read has failed. Then another copy is read, from the same place on:
    * this page's rows are in memory, so none is left out and none comes twice.
    */
  private def mend(goThere: () => Unit): Unit = {
    var failures = 0
    var error = readError()
    while (error != null) {
      opened = local.another(opened, failures, error)
      failures += 1
      goThere()
      error = if (entries.isValid) null else readError()
    }
  }

  private def readError(): RocksDBException =
    try {
      entries.status()
      null
    } catch { case e: RocksDBException => e }

  /** Goes to the page behind the one that is in memory. */
  private def goBehindPage(): Unit = {
    val first = Start + PageBuffer.HeaderLength
    val key = RowLayout.keyBytes(page.bytes, first)
    ensureBound(key.length)
    val (time, seq) = (RowLayout.time(page.bytes, first), RowLayout.seq(page.bytes, first))
    RunKey.write(bound, kind, bucket, key, key.length, time, seq)
    entries.seek(bound)
    if (entries.isValid) {
      if (!isAtBound) throw local.corrupt("a page isn't there that was read before")
      entries.next()
    }
  }

  private def isAtBound: Boolean = {
    val key = ByteBuffer.allocateDirect(rewound.remaining)
    entries.key(key) == bound.remaining && key.rewind().equals(bound)
  }

  private def entryIsInSection(): Boolean = {
    entryKey.clear()
    entries.key(entryKey)
    entryKey.clear()
    RunKey.isIn(entryKey, kind, bucket)
  }

  private def loadPage(): Unit = {
    valid = entries.isValid && entryIsInSection()
    if (valid) {
      loaded += 1
      val pageEnd = Start + page.fromNative(buffer => entries.value(buffer))
      rowBase = page.bytes
      rowAt = Start + PageBuffer.HeaderLength
      lastAt = Start + Platform.getInt(rowBase, Start + PageBuffer.LastRowAt)
      requireFits(lastAt, pageEnd)
      loadRow()
    }
  }

  private def loadRow(): Unit = {
    if (rowAt != lastAt) requireFits(rowAt, lastAt)
    if (changed != null) changed.moved()
    rowTime = RowLayout.time(rowBase, rowAt)
    rowPrefix = RowLayout.keyPrefix(rowBase, rowAt)
  }

  /** Checks the lengths of a row: beyond the page, the JVM would read any memory, or crash. */
  private def requireFits(at: Long, end: Long): Unit = {
    val fits = at >= Start + PageBuffer.HeaderLength && at + RowLayout.HeaderLength <= end && {
      val keyLength = RowLayout.keyLength(rowBase, at)
      val valueLength = RowLayout.valueLength(rowBase, at)
      keyLength >= 0 && valueLength >= 0 && at + RowLayout.length(keyLength, valueLength) <= end
    }
    if (!fits) throw local.corrupt("a page doesn't hold the rows that it says")
  }

  override def close(): Unit = if (!closed) {
    closed = true
    valid = false
    PageBuffer.giveBack(page)
    local.close(opened)
  }
}

object RunCursor {
  private val Start: Long = Platform.BYTE_ARRAY_OFFSET.toLong

  /** Compares the rows at two cursors by the order of their sections. */
  def inOrder(order: RowOrder): Comparator[RunCursor] = if (order.byTime) ByTime else ByKey

  private object ByTime extends Comparator[RunCursor] {
    override def compare(a: RunCursor, b: RunCursor): Int = {
      val byTimeAndSeq = a.compareTimeAndSeq(b.time, b.seq)
      if (byTimeAndSeq != 0) byTimeAndSeq else a.compareKey(b.base, b.at)
    }
  }

  private object ByKey extends Comparator[RunCursor] {
    override def compare(a: RunCursor, b: RunCursor): Int = {
      val byKey = a.compareKey(b.base, b.at)
      if (byKey != 0) byKey else a.compareTimeAndSeq(b.time, b.seq)
    }
  }
}

/** A section, with the run that it is in.
  *
  * @param shapes its rows are read in the newest of them
  */
final class LiveSection(
    val local: LocalRun,
    val section: Section,
    shapes: RowShapes = RowShapes.AsWritten
) {
  def cursor(): RunCursor = {
    val change =
      try shapes.change(section)
      catch {
        case e: ValueChange.UnfitException => throw local.corrupt(e.getMessage, e)
      }
    new RunCursor(local, section.kind, section.bucket, section.minTime, change)
  }

  /** The same section, whose rows are read as they are. */
  def asWritten: LiveSection = new LiveSection(local, section)

  /** The same section with other counts. */
  def counting(counts: Section): LiveSection = new LiveSection(local, counts, shapes)

  /** Calls `row` with the cursor at each row, in the order of the section. */
  def foreachRow(row: RunCursor => Unit): Unit = {
    val at = cursor()
    try {
      at.first()
      while (at.isValid) {
        row(at)
        at.next()
      }
    } finally at.close()
  }
}

object LiveSection {

  /** Lets the runs of sections come side by side that are opened one after the other. */
  def prepare(sections: Seq[LiveSection]): Unit = LocalDisk.ofExecutor.prepare(sections.map(_.local).distinct)
}

/** The rows of several sections in one order. In each section it begins at the [[RunCursor.firstAfter]] of
  * `from`, and ends at the first row after `through`.
  *
  * {{{
  *   run 3   12:00:01  12:00:05 ─┐
  *   run 5   12:00:02            ├──>  12:00:01  12:00:02  12:00:03  12:00:05
  *   run 8   12:00:03            ┘
  * }}}
  *
  * @param order the rows of each section are in it
  */
private[tailrace] final class MergedSections(
    sections: Seq[LiveSection],
    order: Comparator[RunCursor],
    from: Long,
    through: Long = Long.MaxValue
) extends CursorRows {
  import MergedSections.Source

  private val sources = new ArrayBuffer[Source](sections.size)
  private val later = new PriorityQueue[Source]((a: Source, b: Source) => order.compare(a.cursor, b.cursor))
  private var first: Source = _

  try {
    LiveSection.prepare(sections)
    sections.foreach { live =>
      val source = new Source(live, live.cursor())
      sources += source
      source.cursor.firstAfter(from)
      if (isDue(source)) later.add(source)
    }
    first = later.poll()
  } catch {
    case e: Throwable =>
      close()
      throw e
  }

  private def isDue(source: Source): Boolean = source.cursor.isValid && source.cursor.time <= through

  override def isEmpty: Boolean = first == null
  override def head: RunCursor = first.cursor
  override def headSection: LiveSection = first.live

  /** This row's section is tried first: batches hardly overlap in time. */
  override def drop(): Unit = {
    first.dropped += 1
    first.cursor.next()
    if (!isDue(first)) first = later.poll()
    else if (!later.isEmpty && order.compare(first.cursor, later.peek().cursor) > 0) {
      later.add(first)
      first = later.poll()
    }
  }

  /** The number of rows that have been dropped of each section. */
  def dropped: Map[LiveSection, Long] = sources.iterator.map(s => s.live -> s.dropped).toMap

  override def close(): Unit = sources.foreach(_.cursor.close())
}

private object MergedSections {
  private final class Source(val live: LiveSection, val cursor: RunCursor) {
    var dropped = 0L
  }
}

/** Rows of sections, one after the other, each where it is read. */
private[tailrace] trait CursorRows extends AutoCloseable {
  def isEmpty: Boolean

  /** At the first row that is left, until [[drop]]. Not where there is none. */
  def head: RunCursor

  /** The section that this row is in. */
  def headSection: LiveSection

  /** Goes on to the next row. */
  def drop(): Unit
}

/** The schemas that rows of an operator's state have had. They are numbered from 0, and each section says with
  * which its rows were written. The query changes its columns between two runs, so one number is the newest in
  * all of a run:
  *
  * {{{
  *   run of version 7   written with schema 0: (user, price INT)            ──┐ read by cursors
  *   run of version 8   written with schema 1: (user, price BIGINT, city)   ──┴──> (user, price BIGINT, city)
  * }}}
  */
trait RowShapes extends Serializable {

  /** The number of the schema that rows are written with. */
  def newest: Int

  /** Converts values of a section to the newest schema, in the calling thread. Null if the values are the same.
    */
  def change(section: Section): ValueChange
}

object RowShapes {

  /** Rows are taken as they are. */
  case object AsWritten extends RowShapes {
    override val newest = 0
    override def change(section: Section): ValueChange = null
  }

  /** All rows have one schema. */
  case object One extends RowShapes {
    override val newest = 0
    override def change(section: Section): ValueChange =
      if (section.schema == newest) null else throw ValueChange.unknown(section, 1)
  }
}

/** Makes a value of the newest schema of one of an earlier schema. */
trait ValueChange {

  /** @return valid until the next call
    * @throws ValueChange.UnfitException if the bytes aren't a row of the earlier schema
    */
  def apply(base: AnyRef, valueAt: Long, length: Int): UnsafeRow
}

object ValueChange {

  /** @param known how many schemas the operator has had */
  def unknown(section: Section, known: Int): UnfitException =
    new UnfitException(s"it has rows of schema ${section.schema}, and the operator has had $known")

  final class UnfitException(message: String) extends RuntimeException(message)
}

/** The row at a cursor with its value in the newest schema. It is made when it is first asked for: a row whose
  * key nobody looks for costs nothing.
  */
private[state] final class ChangedRow(change: ValueChange) {
  private var bytes = new Array[Byte](256)
  private var isMade = false

  def moved(): Unit = isMade = false

  /** The row's bytes, from their beginning: see [[RowLayout]]. */
  def of(base: AnyRef, at: Long): Array[Byte] = {
    if (!isMade) make(base, at)
    bytes
  }

  private def make(base: AnyRef, at: Long): Unit = {
    val (keyLength, valueLength) = (RowLayout.keyLength(base, at), RowLayout.valueLength(base, at))
    val value = change(base, RowLayout.valueAt(base, at), valueLength)
    val length = Math.toIntExact(RowLayout.length(keyLength, value.getSizeInBytes))
    if (bytes.length < length) bytes = new Array[Byte](Math.max(length, 2 * bytes.length))
    val front = RowLayout.length(keyLength, 0)
    Platform.copyMemory(base, at, bytes, ChangedRow.Start, front)
    RowLayout.writeValueLength(bytes, ChangedRow.Start, value.getSizeInBytes)
    value.writeToMemory(bytes, ChangedRow.Start + front)
    isMade = true
  }
}

private[state] object ChangedRow {
  val Start: Long = Platform.BYTE_ARRAY_OFFSET.toLong
}
