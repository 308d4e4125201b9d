package io.tailrace.common

import java.io.ByteArrayOutputStream
import java.util.Arrays

/** Order-preserving encoding of primitive values: two encodings compare byte by byte, unsigned, as the values
  * do. Each encoding is self-delimiting: none is a proper prefix of another of its type. So the encoding of a
  * composite key is those of its columns in a row. Layout: `jvm/docs/formats.md`.
  *
  * The buffer is reused from row to row: `reset`, then `put...`, then read `bytes` up to `length`.
  */
final class OrderedBytes(initialCapacity: Int = 64) {
  private var buffer = new Array[Byte](initialCapacity)
  private var position = 0

  def bytes: Array[Byte] = buffer
  def length: Int = position
  def reset(): Unit = position = 0
  def toByteArray: Array[Byte] = Arrays.copyOf(buffer, position)

  private def reserve(more: Int): Unit =
    if (position + more > buffer.length) {
      buffer = Arrays.copyOf(buffer, Math.max(buffer.length * 2, position + more))
    }

  def putByte(value: Int): Unit = {
    reserve(1)
    buffer(position) = value.toByte
    position += 1
  }

  private def putBigEndian(value: Long, width: Int): Unit = {
    reserve(width)
    var i = width - 1
    var rest = value
    while (i >= 0) {
      buffer(position + i) = rest.toByte
      rest >>>= 8
      i -= 1
    }
    position += width
  }

  def putBoolean(value: Boolean): Unit = putByte(if (value) 1 else 0)

  // Compared unsigned, negative numbers would come after positive ones: the sign bit is flipped.
  def putInt8(value: Byte): Unit = putByte(value ^ 0x80)
  def putInt16(value: Short): Unit = putBigEndian((value ^ 0x8000).toLong, 2)
  def putInt32(value: Int): Unit = putBigEndian((value ^ Int.MinValue).toLong, 4)
  def putInt64(value: Long): Unit = putBigEndian(value ^ Long.MinValue, 8)

  /** All NaNs are one value, the greatest; minus zero equals zero: as in Spark's own comparisons of keys. */
  def putFloat(value: Float): Unit = {
    val bits = if (value == 0.0f) 0 else java.lang.Float.floatToIntBits(value)
    putBigEndian((if (bits < 0) ~bits else bits ^ Int.MinValue).toLong, 4)
  }

  /** As [[putFloat]]. */
  def putDouble(value: Double): Unit = {
    val bits = if (value == 0.0d) 0L else java.lang.Double.doubleToLongBits(value)
    putBigEndian(if (bits < 0) ~bits else bits ^ Long.MinValue, 8)
  }

  /** A two's complement number, big-endian, of at most 16 bytes, widened to 16. */
  def putInt128(unscaled: Array[Byte]): Unit = {
    require(unscaled.length <= 16, "more than 128 bits")
    reserve(16)
    val sign: Byte = if (unscaled(0) < 0) -1 else 0
    Arrays.fill(buffer, position, position + 16 - unscaled.length, sign)
    System.arraycopy(unscaled, 0, buffer, position + 16 - unscaled.length, unscaled.length)
    buffer(position) = (buffer(position) ^ 0x80).toByte
    position += 16
  }

  /** Bytes of any length. A zero becomes 00 FF, and 00 00 ends the value: so "a" sorts before "a\u0000". */
  def putBytes(value: Array[Byte]): Unit = putBytes(value, 0, value.length)

  /** The `count` bytes of `value` from `from` on. */
  def putBytes(value: Array[Byte], from: Int, count: Int): Unit = {
    reserve(count * 2 + 2)
    var i = from
    while (i < from + count) {
      val b = value(i)
      buffer(position) = b
      position += 1
      if (b == 0) {
        buffer(position) = -1
        position += 1
      }
      i += 1
    }
    buffer(position) = 0
    buffer(position + 1) = 0
    position += 2
  }
}

/** Reads the encoding of [[OrderedBytes]], value by value. */
final class OrderedBytesReader {
  private var buffer = new Array[Byte](0)
  private var position = 0

  /** Begins with the first byte of `bytes`, which must not change until all is read. */
  def begin(bytes: Array[Byte]): Unit = {
    buffer = bytes
    position = 0
  }

  /** True if all bytes were read. */
  def isAtEnd: Boolean = position == buffer.length

  def getByte(): Int = {
    position += 1
    buffer(position - 1) & 0xff
  }

  private def getBigEndian(width: Int): Long = {
    var value = 0L
    var i = 0
    while (i < width) {
      value = (value << 8) | getByte()
      i += 1
    }
    value
  }

  def getInt8(): Byte = (getByte() ^ 0x80).toByte
  def getInt16(): Short = (getBigEndian(2) ^ 0x8000).toShort
  def getInt32(): Int = getBigEndian(4).toInt ^ Int.MinValue
  def getInt64(): Long = getBigEndian(8) ^ Long.MinValue

  def getFloat(): Float = {
    val bits = getBigEndian(4).toInt
    java.lang.Float.intBitsToFloat(if (bits < 0) bits ^ Int.MinValue else ~bits)
  }

  def getDouble(): Double = {
    val bits = getBigEndian(8)
    java.lang.Double.longBitsToDouble(if (bits < 0) bits ^ Long.MinValue else ~bits)
  }

  /** A two's complement number of 16 bytes, big-endian. */
  def getInt128(): Array[Byte] = {
    val unscaled = Arrays.copyOfRange(buffer, position, position + 16)
    unscaled(0) = (unscaled(0) ^ 0x80).toByte
    position += 16
    unscaled
  }

  def getBytes(): Array[Byte] = {
    val out = new ByteArrayOutputStream
    var ended = false
    while (!ended) {
      val b = getByte()
      // A zero is 00 FF, and 00 00 is the end.
      if (b == 0 && getByte() == 0) ended = true
      else out.write(b)
    }
    out.toByteArray
  }
}
