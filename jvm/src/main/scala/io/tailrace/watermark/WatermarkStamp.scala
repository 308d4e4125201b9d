package io.tailrace.watermark

import java.nio.ByteBuffer

/** The low watermark that travels with a record, and the share of hosts that have passed it. Records that are
  * written later have that event time or a later one, unless their host lags.
  *
  * {{{
  *   version(1) = 1   low watermark(8): microseconds, Long.MinValue for none   completeness(8): 10^-18
  * }}}
  *
  * 17 bytes, big-endian. Another layout would have another version.
  */
object WatermarkStamp {
  val Length = 17
  private val Version: Byte = 1

  /** Completeness 1 in the units of a stamp. */
  val WholeShare: Long = 1000000000000000000L

  def encode(low: Long, share: Long): Array[Byte] =
    ByteBuffer.allocate(Length).put(Version).putLong(low).putLong(share).array

  /** True if the bytes are a stamp. */
  def isValid(bytes: Array[Byte]): Boolean = bytes.length == Length && bytes(0) == Version && {
    val found = share(bytes)
    found > 0 && found <= WholeShare
  }

  /** The low watermark of a valid stamp. */
  def low(bytes: Array[Byte]): Long = ByteBuffer.wrap(bytes).getLong(1)

  /** The completeness of a valid stamp. */
  def share(bytes: Array[Byte]): Long = ByteBuffer.wrap(bytes).getLong(9)
}
