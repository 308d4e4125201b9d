package io.tailrace.state

import java.nio.ByteBuffer

import org.apache.spark.unsafe.Platform
import org.rocksdb.RocksDBException

import io.tailrace.common.Errors

/** Reads one section of a run in its order: a page at a time from RocksDB, row by row within the page. It has
  * no position at first: call `first` or a seek. `isValid` is false at the end of the section; a read error
  * is thrown, and is never taken for the end.
  */
final class RunCursor(local: LocalRun, section: Section) extends AutoCloseable {
  import RunCursor._

  private val kind = section.kind
  private val entries = local.iterator()
  private val page = PageBuffer.take()
  private val entryKey = ByteBuffer.allocateDirect(RunKey.PrefixLength)
  private var bound = ByteBuffer.allocateDirect(256)
  private var closed = false

  private var valid = false
  private var rowBase: Array[Byte] = page.bytes
  private var rowAt = Start
  private var lastAt = Start
  private var pageEnd = Start
  private var rowTime = 0L
  private var rowPrefix = 0L

  def isValid: Boolean = valid

  /** The position of the row, until the next move: see [[RowLayout]]. */
  def base: AnyRef = rowBase
  def at: Long = rowAt

  def time: Long = rowTime
  def seq: Long = RowLayout.seq(rowBase, rowAt)
  def keyPrefix: Long = rowPrefix

  def first(): Unit = {
    RunKey.writePrefix(bound, kind, section.bucket)
    entries.seek(bound)
    loadPage()
  }

  /** Goes to the first row that has not expired. In a time-sorted section, the rows up to a time have
    * expired, and stand first; in a key-sorted one, no row has.
    */
  def firstAfter(expiredThrough: Long): Unit =
    if (kind.timeSorted && expiredThrough >= section.minTime) seekTime(expiredThrough + 1) else first()

  /** Goes to the first row at `time` or later, in a time-sorted section. */
  def seekTime(time: Long): Unit = {
    RunKey.writeTimeBound(bound, kind, section.bucket, time)
    seekToPage()
    while (valid && rowTime < time) next()
  }

  /** Goes to the first row with this key or a greater one, in a key-sorted section.
    *
    * @param probe a row that has the key, in the bytes of [[RowLayout]]
    */
  def seekKey(probe: AnyRef, probeAt: Long): Unit = {
    val length = RowLayout.keyLength(probe, probeAt)
    if (bound.capacity < RunKey.FixedLength + length) {
      bound = ByteBuffer.allocateDirect(2 * (RunKey.FixedLength + length))
    }
    val key = new Array[Byte](length)
    Platform.copyMemory(
      probe,
      RowLayout.keyAt(probeAt),
      key,
      Platform.BYTE_ARRAY_OFFSET.toLong,
      length.toLong
    )
    RunKey.writeKeyBound(bound, kind, section.bucket, key, length)
    seekToPage()
    while (valid && compareKey(probe, probeAt) < 0) next()
  }

  /** Goes forward to the first row with this key or a greater one, in a key-sorted section. Steps if that row
    * is near, and seeks if it is far. A page whose last row is before the key isn't read.
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
  def keyBytes: Array[Byte] = copy(RowLayout.keyAt(rowAt), RowLayout.keyLength(rowBase, rowAt))

  /** A copy of the row's value. */
  def valueBytes: Array[Byte] =
    copy(RowLayout.valueAt(rowBase, rowAt), RowLayout.valueLength(rowBase, rowAt))

  private def copy(from: Long, length: Int): Array[Byte] = {
    val start = (from - Platform.BYTE_ARRAY_OFFSET).toInt
    java.util.Arrays.copyOfRange(rowBase, start, start + length)
  }

  private def nextPage(): Unit = {
    entries.next()
    loadPage()
  }

  /** Goes to the last page that begins before the bound, because the row may be in it, or else to the
    * section's first.
    */
  private def seekToPage(): Unit = {
    entries.seekForPrev(bound)
    if (entries.isValid && entryIsInSection()) loadPage() else first()
  }

  private def entryIsInSection(): Boolean = {
    entryKey.clear()
    entries.key(entryKey)
    entryKey.clear()
    RunKey.isIn(entryKey, kind, section.bucket)
  }

  private def loadPage(): Unit = {
    valid = entries.isValid
    if (valid) {
      valid = entryIsInSection()
      if (valid) {
        val length = page.fromNative(buffer => entries.value(buffer))
        rowBase = page.bytes
        rowAt = Start + PageBuffer.HeaderLength
        pageEnd = Start + length
        lastAt = Start + Platform.getInt(rowBase, Start + PageBuffer.LastRowAt)
        requireFits(lastAt, pageEnd)
        loadRow()
      }
    } else
      try entries.status()
      catch {
        case e: RocksDBException => throw Errors.stateFileCorrupt(local.path, "a block can't be read", e)
      }
  }

  private def loadRow(): Unit = {
    if (rowAt != lastAt) requireFits(rowAt, lastAt)
    rowTime = RowLayout.time(rowBase, rowAt)
    rowPrefix = RowLayout.keyPrefix(rowBase, rowAt)
  }

  /** Checks the lengths of a row: with lengths beyond the page, the JVM would read any memory, or crash. */
  private def requireFits(at: Long, end: Long): Unit = {
    val fits = at >= Start + PageBuffer.HeaderLength && at + RowLayout.HeaderLength <= end && {
      val keyLength = RowLayout.keyLength(rowBase, at)
      val valueLength = RowLayout.valueLength(rowBase, at)
      keyLength >= 0 && valueLength >= 0 && at + RowLayout.length(keyLength, valueLength) <= end
    }
    if (!fits) throw Errors.stateFileCorrupt(local.path, "a page doesn't hold the rows that it says")
  }

  override def close(): Unit = if (!closed) {
    closed = true
    valid = false
    PageBuffer.giveBack(page)
    entries.close()
  }
}

object RunCursor {
  private val Start: Long = Platform.BYTE_ARRAY_OFFSET.toLong
}
