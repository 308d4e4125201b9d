package io.tailrace.state

import java.io.File
import java.nio.ByteBuffer
import java.util.Arrays

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.unsafe.Platform
import org.rocksdb.RocksDBException

import io.tailrace.common.Errors

/** Writes one run: sections in the order of [[StoreKind.id]] and bucket, the rows of each in pages, in the
  * order of its kind. A batch has one file for all stores, because each file costs an object store's round
  * trip.
  *
  * {{{
  *   begin(left-time-sorted, bucket 7)  append(row) append(row) ...  end()
  *                                      └─── a page of 16 KiB ───┘ ──> one entry of the SST file
  *   finish()   the filters of the pages, behind all sections: [[PageFilters]]
  * }}}
  */
final class RunWriter(file: File) extends AutoCloseable {
  private val writer = BlockCache.ofExecutor.newWriter()
  private val page = PageBuffer.take()
  private val written = new ArrayBuffer[Section]
  private var closed = false

  private var kind: StoreKind = _
  private var bucket = 0L
  private var rows = 0L
  private var minTime = 0L
  private var maxTime = 0L
  private var bytes = 0L
  private val keys = new KeyCount

  private var used = PageBuffer.HeaderLength
  private var pageRows = 0
  private var lastRow = 0
  private var pageKey = ByteBuffer.allocateDirect(256)
  private var key = new Array[Byte](128)
  private val filters = new PageFilters.Builder

  try writing(writer.open(file.getPath))
  catch {
    case e: Throwable =>
      close()
      throw e
  }

  /** The sections that have been written, in the order of the file. */
  def sections: Seq[Section] = written.toSeq

  def begin(store: StoreKind, bucketOfRows: Long): Unit = {
    val last = written.lastOption
    val follows = last.forall(s => s.kind.id < store.id || (s.kind.id == store.id && s.bucket < bucketOfRows))
    require(follows, s"${store.name} $bucketOfRows after $last")
    start(store, bucketOfRows)
  }

  private def start(store: StoreKind, bucketOfRows: Long): Unit = {
    kind = store
    bucket = bucketOfRows
    rows = 0
    minTime = Long.MaxValue
    maxTime = Long.MinValue
    bytes = 0
    keys.clear()
  }

  /** Adds a row. It must not be before the last one in the section's order. */
  def append(base: AnyRef, at: Long): Unit = {
    val length = RowLayout.length(base, at)
    makeRoom(length)
    Platform.copyMemory(base, at, page.bytes, Platform.BYTE_ARRAY_OFFSET.toLong + used, length)
    added(base, at, length)
  }

  /** Adds a row without its value. */
  def appendKey(base: AnyRef, at: Long): Unit = {
    val length = RowLayout.length(RowLayout.keyLength(base, at), 0)
    makeRoom(length)
    RowLayout.copyKey(base, at, page.bytes, Platform.BYTE_ARRAY_OFFSET.toLong + used)
    added(base, at, length)
  }

  private def makeRoom(length: Long): Unit = {
    if (pageRows > 0 && used + length > PageBuffer.Capacity) writePage()
    if (used + length > PageBuffer.Capacity) page.ensure(Math.toIntExact(used + length))
  }

  private def added(base: AnyRef, at: Long, length: Long): Unit = {
    lastRow = used
    used += length.toInt
    pageRows += 1
    val time = RowLayout.time(base, at)
    if (time < minTime) minTime = time
    if (time > maxTime) maxTime = time
    rows += 1
    bytes += length
    if (kind.keepsNewest) keys.add(base, at)
  }

  def end(): Unit = {
    if (pageRows > 0) writePage()
    if (rows > 0) written += Section(kind.name, bucket, rows, minTime, maxTime, bytes, keys = keys.count)
    kind.pages.foreach(filters.endSection(_, bucket))
  }

  private def writePage(): Unit = {
    val base = page.bytes
    val first = Platform.BYTE_ARRAY_OFFSET.toLong + PageBuffer.HeaderLength
    val keyLength = RowLayout.keyLength(base, first)
    if (key.length < keyLength) {
      key = new Array[Byte](keyLength * 2)
      pageKey = ByteBuffer.allocateDirect(RunKey.FixedLength + keyLength * 2)
    }
    System.arraycopy(base, PageBuffer.HeaderLength + RowLayout.HeaderLength, key, 0, keyLength)
    val time = RowLayout.time(base, first)
    RunKey.write(pageKey, kind, bucket, key, keyLength, time, RowLayout.seq(base, first))
    Platform.putInt(base, Platform.BYTE_ARRAY_OFFSET.toLong + PageBuffer.RowsAt, pageRows)
    Platform.putInt(base, Platform.BYTE_ARRAY_OFFSET.toLong + PageBuffer.LastRowAt, lastRow)
    writing(writer.put(pageKey, page.toNative(used)))
    if (kind.pages.nonEmpty)
      filters.add(base, first, Platform.BYTE_ARRAY_OFFSET.toLong + lastRow, pageRows)
    used = PageBuffer.HeaderLength
    pageRows = 0
  }

  /** Completes the file. At least one row must have been written. */
  def finish(): Unit = {
    filters.result.foreach { case (pages, bucketOfRows, rows) =>
      start(pages, bucketOfRows)
      rows.foreach(append(_, Platform.BYTE_ARRAY_OFFSET.toLong))
      if (pageRows > 0) writePage()
    }
    writing(writer.finish())
  }

  /** A full disk, or a directory that somebody has deleted. */
  private def writing(step: => Unit): Unit =
    try step
    catch { case e: RocksDBException => throw Errors.stateFileUnavailable(file.getPath, "written", e) }

  override def close(): Unit = if (!closed) {
    closed = true
    PageBuffer.giveBack(page)
    writer.close()
  }
}

/** Counts the different keys of rows that come in the order of their keys. */
private final class KeyCount {
  private var last = new Array[Byte](128)
  private var found = 0L

  def count: Long = found

  def clear(): Unit = found = 0

  def add(base: AnyRef, at: Long): Unit =
    if (found == 0 || isOther(base, at)) {
      found += 1
      val length = RowLayout.length(RowLayout.keyLength(base, at), 0).toInt
      if (last.length < length) last = new Array[Byte](length * 2)
      RowLayout.copyKey(base, at, last, Platform.BYTE_ARRAY_OFFSET.toLong)
    }

  private def isOther(base: AnyRef, at: Long): Boolean = {
    val lastAt = Platform.BYTE_ARRAY_OFFSET.toLong
    val prefix = RowLayout.keyPrefix(base, at)
    RowLayout.compareKeys(RowLayout.keyPrefix(last, lastAt), last, lastAt, prefix, base, at) != 0
  }
}

/** Rows of a buffer in the order of a store, by time bucket, ready to be written into a run.
  *
  * @param order       row numbers; other rows are left out
  * @param bucketWidth in the unit of the rows' times
  * @param keysOnly    whether the rows are written without their values
  */
final class SortedRows private (
    val kind: StoreKind,
    val rows: RowBuffer,
    val order: Array[Int],
    val bucketWidth: Long,
    val keysOnly: Boolean = false
) {
  def isEmpty: Boolean = order.length == 0

  def bucket(position: Int): Long = Math.floorDiv(rows.time(order(position)), bucketWidth)

  /** Writes the rows into a run, a section per time bucket. Stores must come in ascending order of id. */
  def writeTo(writer: RunWriter): Unit = {
    var i = 0
    while (i < order.length) {
      val section = bucket(i)
      writer.begin(kind, section)
      while (i < order.length && bucket(i) == section) {
        if (keysOnly) writer.appendKey(rows.base(order(i)), rows.at(order(i)))
        else writer.append(rows.base(order(i)), rows.at(order(i)))
        i += 1
      }
      writer.end()
    }
  }
}

object SortedRows {

  /** Buckets of one store in one run. */
  private val MostBuckets = 64

  /** All rows of a buffer.
    *
    * @param leastBucketWidth a batch that spans a long time gets wider buckets, so that its sections are not
    *                         too many. A bucket has a meaning in its run only
    * @param rowsPerBucket    few rows get wider buckets too, so that a bucket has at least this many rows on average
    */
  def all(kind: StoreKind, rows: RowBuffer, leastBucketWidth: Long, rowsPerBucket: Int = 1): SortedRows = {
    val width = if (rows.isEmpty) leastBucketWidth else widthFor(rows, null, leastBucketWidth, rowsPerBucket)
    new SortedRows(kind, rows, sorted(rows, kind.order, width), width)
  }

  /** Row numbers by time bucket, and in an order within a bucket. */
  private def sorted(rows: RowBuffer, order: RowOrder, bucketWidth: Long): Array[Int] = order match {
    // Time first is bucket first.
    case RowOrder.Time => RowSort.byTime(rows)
    case RowOrder.TimeAndSeq => RowSort.byTimeAndSeq(rows)
    case RowOrder.TimeSeqAndKey => RowSort.byTimeSeqAndKey(rows)
    case RowOrder.Key => RowSort.byBucketAndKey(rows, bucketWidth)
    case RowOrder.KeyTimeAndSeq => RowSort.thenByBucket(rows, RowSort.byKeyTimeAndSeq(rows), bucketWidth)
  }

  /** The rows of a buffer that `chosen` accepts by their number. */
  def some(kind: StoreKind, rows: RowBuffer, leastBucketWidth: Long, chosen: Int => Boolean): SortedRows = {
    val sorted = all(kind, rows, leastBucketWidth)
    val order = sorted.order
    var count = 0
    var i = 0
    while (i < order.length) {
      if (chosen(order(i))) {
        order(count) = order(i)
        count += 1
      }
      i += 1
    }
    new SortedRows(kind, rows, Arrays.copyOf(order, count), sorted.bucketWidth)
  }

  /** The rows that have a key, without their values. Copies are not made: there may be no memory for them. */
  def keys(kind: StoreKind, rows: RowBuffer, leastBucketWidth: Long): SortedRows = {
    val byKey = RowSort.byKey(rows)
    // Empty keys come before all others.
    var empty = 0
    while (empty < byKey.length && rows.keyLength(byKey(empty)) == 0) empty += 1
    val sorted = ofSorted(kind, rows, Arrays.copyOfRange(byKey, empty, byKey.length), leastBucketWidth)
    new SortedRows(kind, rows, sorted.order, sorted.bucketWidth, keysOnly = true)
  }

  /** Some rows of a key-sorted store, by key, time and sequence number. */
  def ofSorted(
      kind: StoreKind,
      rows: RowBuffer,
      byKey: Array[Int],
      leastBucketWidth: Long,
      rowsPerBucket: Int = 1
  ): SortedRows = {
    require(!kind.timeSorted, s"${kind.name} isn't sorted by key")
    if (byKey.length == 0) new SortedRows(kind, rows, byKey, leastBucketWidth)
    else {
      val width = widthFor(rows, byKey, leastBucketWidth, rowsPerBucket)
      new SortedRows(kind, rows, RowSort.thenByBucket(rows, byKey, width), width)
    }
  }

  /** @param chosen null: all rows */
  private def widthFor(rows: RowBuffer, chosen: Array[Int], least: Long, rowsPerBucket: Int): Long = {
    var earliest = Long.MaxValue
    var latest = Long.MinValue
    val count = if (chosen == null) rows.size else chosen.length
    var i = 0
    while (i < count) {
      val time = rows.time(if (chosen == null) i else chosen(i))
      earliest = Math.min(earliest, time)
      latest = Math.max(latest, time)
      i += 1
    }
    // A span of n widths touches n + 1 buckets, and times lie on both sides of zero.
    val most = (if (rowsPerBucket <= 1) MostBuckets - 1
                else Math.max(1, Math.min(MostBuckets - 1, count / rowsPerBucket))).toLong
    Math.max(least, Math.floorDiv(latest, most) - Math.floorDiv(earliest, most) + 1)
  }
}
