package io.tailrace.state

import java.nio.ByteOrder

import org.apache.spark.unsafe.Platform

import io.tailrace.common.OrderedBytes

/** The bytes of a row. They are the same in memory ([[RowBuffer]]) and in the pages of a run, so one copy
  * moves a row (format 2, `jvm/docs/formats.md`):
  *
  * {{{
  *   time(8) seq(8) keyLength(4) valueLength(4) key, padded with zeros to 8 bytes; value, padded to 8 bytes
  * }}}
  *
  * A row is given by a base object and an offset, as in Spark's `Platform`.
  */
object RowLayout {
  // An executor may read a run that another one wrote. Spark's UnsafeRow has the same limit.
  require(
    ByteOrder.nativeOrder == ByteOrder.LITTLE_ENDIAN,
    "Tailrace's state is little-endian, and this machine is not"
  )

  /** Length of the fields before the key. */
  val HeaderLength = 24

  private val SeqAt = 8
  private val KeyLengthAt = 16
  private val ValueLengthAt = 20

  def padded(length: Int): Long = (length + 7L) & ~7L

  def length(keyLength: Int, valueLength: Int): Long = HeaderLength + padded(keyLength) + padded(valueLength)

  def time(base: AnyRef, at: Long): Long = Platform.getLong(base, at)
  def seq(base: AnyRef, at: Long): Long = Platform.getLong(base, at + SeqAt)
  def keyLength(base: AnyRef, at: Long): Int = Platform.getInt(base, at + KeyLengthAt)
  def valueLength(base: AnyRef, at: Long): Int = Platform.getInt(base, at + ValueLengthAt)
  def length(base: AnyRef, at: Long): Long = length(keyLength(base, at), valueLength(base, at))
  def keyAt(at: Long): Long = at + HeaderLength

  /** A copy of the key. */
  def keyBytes(base: AnyRef, at: Long): Array[Byte] = {
    val key = new Array[Byte](keyLength(base, at))
    Platform.copyMemory(base, keyAt(at), key, Platform.BYTE_ARRAY_OFFSET.toLong, key.length.toLong)
    key
  }

  def valueAt(base: AnyRef, at: Long): Long = at + HeaderLength + padded(keyLength(base, at))

  /** Writes the fields before the key. */
  def writeHeader(base: AnyRef, at: Long, time: Long, seq: Long, keyLength: Int, valueLength: Int): Unit = {
    Platform.putLong(base, at, time)
    Platform.putLong(base, at + SeqAt, seq)
    Platform.putInt(base, at + KeyLengthAt, keyLength)
    Platform.putInt(base, at + ValueLengthAt, valueLength)
    // This pads the key's last word; the key's bytes are written over it.
    if ((keyLength & 7) != 0) Platform.putLong(base, keyAt(at) + (keyLength & ~7), 0L)
  }

  /** The least sequence number of the rows that came with a version: 2^32 of one partition in one batch. */
  def firstSeq(version: Long): Long = version << 32

  def writeSeq(base: AnyRef, at: Long, seq: Long): Unit = Platform.putLong(base, at + SeqAt, seq)

  /** Makes room for a value behind a row that has none. */
  def writeValueLength(base: AnyRef, at: Long, length: Int): Unit =
    Platform.putInt(base, at + ValueLengthAt, length)

  /** A row that has only a key, to search by. */
  def ofKey(key: Array[Byte], length: Int): Array[Byte] = {
    val start = Platform.BYTE_ARRAY_OFFSET.toLong
    val row = new Array[Byte](this.length(length, 0).toInt)
    writeHeader(row, start, 0L, 0L, length, 0)
    Platform.copyMemory(key, start, row, keyAt(start), length.toLong)
    row
  }

  /** Writes a copy of a row without its value. */
  def copyKey(base: AnyRef, at: Long, to: AnyRef, toAt: Long): Unit = {
    Platform.copyMemory(base, at, to, toAt, length(keyLength(base, at), 0))
    Platform.putInt(to, toAt + ValueLengthAt, 0)
  }

  /** The first eight bytes of the key as an unsigned big-endian number, padded with zeros. */
  def keyPrefix(base: AnyRef, at: Long): Long =
    if (keyLength(base, at) == 0) 0L else java.lang.Long.reverseBytes(Platform.getLong(base, keyAt(at)))

  /** Byte order of the keys of two rows, whose prefixes are known. */
  def compareKeys(aPrefix: Long, a: AnyRef, aAt: Long, bPrefix: Long, b: AnyRef, bAt: Long): Int = {
    val byPrefix = java.lang.Long.compareUnsigned(aPrefix, bPrefix)
    if (byPrefix != 0) byPrefix else compareKeysBeyondPrefix(a, aAt, b, bAt)
  }

  /** Byte order of keys with equal prefixes. An empty key looks like one of zeros: then the length
    * decides.
    */
  def compareKeysBeyondPrefix(a: AnyRef, aAt: Long, b: AnyRef, bAt: Long): Int = {
    val aLength = keyLength(a, aAt)
    val bLength = keyLength(b, bAt)
    if (aLength <= 8 && bLength <= 8) Integer.compare(aLength, bLength)
    else compareBytes(a, keyAt(aAt), aLength, b, keyAt(bAt), bLength)
  }

  /** Byte order of two values. */
  def compareValues(a: AnyRef, aAt: Long, b: AnyRef, bAt: Long): Int =
    compareBytes(a, valueAt(a, aAt), valueLength(a, aAt), b, valueAt(b, bAt), valueLength(b, bAt))

  private def compareBytes(a: AnyRef, aAt: Long, aLength: Int, b: AnyRef, bAt: Long, bLength: Int): Int = {
    val shared = Math.min(aLength, bLength)
    var i = 0
    while (i + 8 <= shared && Platform.getLong(a, aAt + i) == Platform.getLong(b, bAt + i)) i += 8
    while (i < shared) {
      val difference = (Platform.getByte(a, aAt + i) & 0xff) - (Platform.getByte(b, bAt + i) & 0xff)
      if (difference != 0) return difference
      i += 1
    }
    aLength - bLength
  }
}

/** The key of a row of `joined-indicator`, a match: time and sequence number of its right row. Both are big-endian with
  * the sign bit flipped, so that they are in the order of bytes. The row's own time and number are its left row's.
  */
private[tailrace] object MatchKey {
  private val SeqAt = 8

  val Length = 16

  /** Puts the key of a match behind what `key` has. */
  def put(key: OrderedBytes, rightTime: Long, rightSeq: Long): Unit = {
    key.putInt64(rightTime)
    key.putInt64(rightSeq)
  }

  def rightTime(base: AnyRef, at: Long): Long = value(base, RowLayout.keyAt(at))

  def rightSeq(base: AnyRef, at: Long): Long = value(base, RowLayout.keyAt(at) + SeqAt)

  def writeRightSeq(base: AnyRef, at: Long, seq: Long): Unit =
    Platform.putLong(base, RowLayout.keyAt(at) + SeqAt, java.lang.Long.reverseBytes(seq ^ Long.MinValue))

  private def value(base: AnyRef, at: Long): Long =
    java.lang.Long.reverseBytes(Platform.getLong(base, at)) ^ Long.MinValue
}
