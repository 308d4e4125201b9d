package io.tailrace.state

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.memory.MemoryBlock

/** Rows of one batch: per row its encoded key, time, sequence number and value, the bytes in pages and an index of plain
  * arrays beside them, which the radix sorts of [[RowSort]] run over without touching a row.
  *
  * Rows are numbered from 0 in the order of `append`. Keys may be empty: those rows match nothing.
  */
final class RowBuffer(memory: RowMemory) extends AutoCloseable {
  private val pages = new ArrayBuffer[MemoryBlock]
  private var pageUsed = 0L
  private var rowBytes = 0L
  private var indexReserved = 0L

  private var count = 0
  private var times = new Array[Long](0)
  private var seqs = new Array[Long](0)
  private var prefixes = new Array[Long](0)
  private var pageOf = new Array[Int](0)
  private var offsetOf = new Array[Long](0)
  private var keyLengths = new Array[Int](0)
  private var valueLengths = new Array[Int](0)

  def size: Int = count
  def isEmpty: Boolean = count == 0

  /** What its rows take, in bytes; pages and index that it keeps for the next rows don't count. */
  def bytes: Long = rowBytes + count.toLong * RowBuffer.IndexBytesPerRow

  def time(row: Int): Long = times(row)
  def seq(row: Int): Long = seqs(row)

  /** The first eight bytes of the key as an unsigned big-endian number, padded with zeros. */
  def keyPrefix(row: Int): Long = prefixes(row)
  def keyLength(row: Int): Int = keyLengths(row)
  def valueBase(row: Int): AnyRef = pages(pageOf(row)).getBaseObject
  def valueOffset(row: Int): Long = offsetOf(row)
  def valueLength(row: Int): Int = valueLengths(row)
  private def keyOffset(row: Int): Long = offsetOf(row) + RowBuffer.padded(valueLengths(row))

  private[state] def timesOf: Array[Long] = times
  private[state] def prefixesOf: Array[Long] = prefixes

  def append(
      key: Array[Byte],
      keyLength: Int,
      time: Long,
      seq: Long,
      base: AnyRef,
      offset: Long,
      length: Int
  ): Int = {
    if (count == times.length) growIndex()
    val needed = RowBuffer.padded(length) + RowBuffer.padded(keyLength)
    if (pages.isEmpty || pageUsed + needed > pages.last.size) newPage(needed)
    val page = pages.last
    val at = page.getBaseOffset + pageUsed
    Platform.copyMemory(base, offset, page.getBaseObject, at, length.toLong)
    Platform.copyMemory(
      key,
      Platform.BYTE_ARRAY_OFFSET.toLong,
      page.getBaseObject,
      at + RowBuffer.padded(length),
      keyLength.toLong
    )
    pageUsed += needed
    rowBytes += needed
    times(count) = time
    seqs(count) = seq
    prefixes(count) = RowBuffer.prefix(key, keyLength)
    pageOf(count) = pages.size - 1
    offsetOf(count) = at
    keyLengths(count) = keyLength
    valueLengths(count) = length
    count += 1
    count - 1
  }

  /** Copies the key of a row into `into`, which must be long enough. */
  def copyKey(row: Int, into: Array[Byte]): Unit =
    Platform.copyMemory(
      valueBase(row),
      keyOffset(row),
      into,
      Platform.BYTE_ARRAY_OFFSET.toLong,
      keyLengths(row).toLong
    )

  def copyValue(row: Int, into: Array[Byte], at: Int): Unit =
    Platform.copyMemory(
      valueBase(row),
      offsetOf(row),
      into,
      Platform.BYTE_ARRAY_OFFSET.toLong + at,
      valueLengths(row).toLong
    )

  /** Byte order of two keys, as in a run. The padding of the prefix makes an empty key look like one of zeros: there the
    * length decides.
    */
  def compareKeys(a: Int, b: Int): Int = {
    val first = java.lang.Long.compareUnsigned(prefixes(a), prefixes(b))
    if (first != 0) first
    else if (keyLengths(a) <= 8 && keyLengths(b) <= 8) Integer.compare(keyLengths(a), keyLengths(b))
    else
      RowBuffer.compareBytes(
        valueBase(a),
        keyOffset(a),
        keyLengths(a),
        valueBase(b),
        keyOffset(b),
        keyLengths(b)
      )
  }

  /** Byte order of a key with one that stands in an array. `prefix` is the array's [[RowBuffer.prefix]]. */
  def compareKeyTo(row: Int, key: Array[Byte], keyLength: Int, prefix: Long): Int = {
    val first = java.lang.Long.compareUnsigned(prefixes(row), prefix)
    if (first != 0) first
    else if (keyLengths(row) <= 8 && keyLength <= 8) Integer.compare(keyLengths(row), keyLength)
    else
      RowBuffer.compareBytes(
        valueBase(row),
        keyOffset(row),
        keyLengths(row),
        key,
        Platform.BYTE_ARRAY_OFFSET.toLong,
        keyLength
      )
  }

  /** Byte order of two values: the last word where two matches have the same time. */
  def compareValues(a: Int, b: Int): Int =
    RowBuffer.compareBytes(
      valueBase(a),
      offsetOf(a),
      valueLengths(a),
      valueBase(b),
      offsetOf(b),
      valueLengths(b)
    )

  /** Forgets the rows and keeps one page for the next ones. */
  def clear(): Unit = {
    count = 0
    pageUsed = 0
    rowBytes = 0
    while (pages.size > 1) dropLastPage()
  }

  override def close(): Unit = {
    while (pages.nonEmpty) dropLastPage()
    memory.freeMemory(indexReserved)
    indexReserved = 0
    count = 0
    times = new Array[Long](0)
  }

  private def dropLastPage(): Unit = {
    memory.release(pages.remove(pages.size - 1))
  }

  private def newPage(needed: Long): Unit = {
    pages += memory.page(needed)
    pageUsed = 0
  }

  private def growIndex(): Unit = {
    val capacity = Math.max(1024, times.length * 2)
    // Four longs and three ints a row, and as much again of ints while it is sorted.
    val bytes = capacity.toLong * RowBuffer.IndexBytesPerRow
    memory.reserve(bytes - indexReserved)
    indexReserved = bytes
    times = java.util.Arrays.copyOf(times, capacity)
    seqs = java.util.Arrays.copyOf(seqs, capacity)
    prefixes = java.util.Arrays.copyOf(prefixes, capacity)
    pageOf = java.util.Arrays.copyOf(pageOf, capacity)
    offsetOf = java.util.Arrays.copyOf(offsetOf, capacity)
    keyLengths = java.util.Arrays.copyOf(keyLengths, capacity)
    valueLengths = java.util.Arrays.copyOf(valueLengths, capacity)
  }
}

object RowBuffer {
  private val IndexBytesPerRow = 4 * 8 + 3 * 4 + 3 * 4

  private def padded(length: Int): Long = (length.toLong + 7) & ~7L

  def prefix(key: Array[Byte], length: Int): Long = {
    var value = 0L
    var i = 0
    while (i < 8) {
      value = (value << 8) | (if (i < length) key(i) & 0xffL else 0L)
      i += 1
    }
    value
  }

  private[state] def compareBytes(
      a: AnyRef,
      aOffset: Long,
      aLength: Int,
      b: AnyRef,
      bOffset: Long,
      bLength: Int
  ): Int = {
    val shared = Math.min(aLength, bLength)
    var i = 0
    while (i + 8 <= shared && Platform.getLong(a, aOffset + i) == Platform.getLong(b, bOffset + i)) i += 8
    while (i < shared) {
      val difference = (Platform.getByte(a, aOffset + i) & 0xff) - (Platform.getByte(b, bOffset + i) & 0xff)
      if (difference != 0) return difference
      i += 1
    }
    aLength - bLength
  }
}
