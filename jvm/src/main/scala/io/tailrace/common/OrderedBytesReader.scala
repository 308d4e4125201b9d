package io.tailrace.common

import java.io.ByteArrayOutputStream
import java.util.Arrays

/** Reads what [[OrderedBytes]] has written, value by value. */
final class OrderedBytesReader {
  private var buffer = new Array[Byte](0)
  private var position = 0

  /** Begins with the first byte of `bytes`, which must not change until all is read. */
  def begin(bytes: Array[Byte]): Unit = {
    buffer = bytes
    position = 0
  }

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
