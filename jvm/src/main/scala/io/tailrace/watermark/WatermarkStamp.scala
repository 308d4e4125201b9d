package io.tailrace.watermark

import java.nio.ByteBuffer

/** The low watermark that travels with a record: how far the writer's data was complete, and to which share of its hosts.
  * All records that are written after it, but for those hosts that lag, are of that time or later.
  *
  * {{{
  *   version(1) = 1   low watermark(8): microseconds, the least long: none yet   completeness(8): in units of 10^-18
  * }}}
  *
  * 17 bytes, big-endian; another layout would have another version.
  */
object WatermarkStamp {
  val Length = 17
  private val Version: Byte = 1

  /** The whole, in the units of a stamp. */
  val WholeShare: Long = 1000000000000000000L

  def encode(low: Long, share: Long): Array[Byte] =
    ByteBuffer.allocate(Length).put(Version).putLong(low).putLong(share).array

  /** Whether the bytes are a stamp. */
  def isValid(bytes: Array[Byte]): Boolean = bytes.length == Length && bytes(0) == Version && {
    val found = share(bytes)
    found > 0 && found <= WholeShare
  }

  /** Of a valid stamp. */
  def low(bytes: Array[Byte]): Long = ByteBuffer.wrap(bytes).getLong(1)

  /** Of a valid stamp. */
  def share(bytes: Array[Byte]): Long = ByteBuffer.wrap(bytes).getLong(9)
}
