package io.tailrace.replay

import java.nio.ByteBuffer
import java.util.Arrays

import io.tailrace.common.Errors

/** Where a record comes from: the producer that wrote it, and the partition and offset in the producer's own source. 20
  * bytes, big-endian, mostly the key of a Kafka record (`jvm/docs/formats.md`):
  *
  * {{{
  *   producer id(8) source partition(4) source offset(8)
  * }}}
  *
  * Partitions and offsets are never negative, so of two keys of one producer and partition the greater one, byte by
  * byte, has the greater offset. Methods on null return null: Spark's generated code calls them.
  */
object RecordMetadata {
  val Length = 20
  private val PartitionAt = 8
  private val OffsetAt = 12

  def encode(producerId: Long, partition: Int, offset: Long): Array[Byte] =
    ByteBuffer.allocate(Length).putLong(producerId).putInt(partition).putLong(offset).array

  /** Whether these bytes are a record's metadata. Null isn't. */
  def isValid(bytes: Array[Byte]): Boolean =
    bytes != null && bytes.length == Length && bytes(PartitionAt) >= 0 && bytes(OffsetAt) >= 0

  def producerId(bytes: Array[Byte]): Long = ByteBuffer.wrap(bytes).getLong(0)
  def partition(bytes: Array[Byte]): Int = ByteBuffer.wrap(bytes).getInt(PartitionAt)
  def offset(bytes: Array[Byte]): Long = ByteBuffer.wrap(bytes).getLong(OffsetAt)

  /** The one with the greater offset, of one producer and partition; either may be null.
    *
    * @throws io.tailrace.common.TailraceStateException TAILRACE_METADATA_MIXED if they are of two
    */
  def later(a: Array[Byte], b: Array[Byte]): Array[Byte] =
    if (a == null) b
    else if (b == null) a
    else if (!Arrays.equals(a, 0, OffsetAt, b, 0, OffsetAt)) {
      throw Errors.metadataMixed(describe(a), describe(b))
    } else if (offset(a) >= offset(b)) a
    else b

  private def describe(bytes: Array[Byte]): String =
    s"producer ${producerId(bytes)}, partition ${partition(bytes)}"
}
