package io.tailrace.replay

import java.nio.ByteBuffer

/** Where a record comes from: the producer that wrote it, and the partition and offset in the producer's own source.
  * Mostly the key of a Kafka record (`jvm/docs/formats.md`), 24 bytes, big-endian:
  *
  * {{{
  *   FF 54 52 02   producer id(8) source partition(4) source offset(8)
  * }}}
  *
  * No text in UTF-8 begins with FF, and of other keys of 24 bytes one of 2^34 is taken for metadata. The older form is the
  * 20 bytes without the tag: see [[isPlausible]].
  *
  * Partitions and offsets are never negative, so of two keys of one producer and partition the greater one, byte by
  * byte, has the greater offset. Methods on null return null: Spark's generated code calls them.
  */
object RecordMetadata {
  val Tag = 0xff545202
  val TagLength = 4
  val Length = 24
  val UntaggedLength: Int = Length - TagLength
  private val PartitionAt = 8
  private val OffsetAt = 12

  /** Offsets are below it: one record with the greatest number of all would leave nothing above it for the rest of its
    * origin. Nanoseconds since 1970 are for another 90 years.
    */
  val OffsetLimit: Long = 1L << 62

  def isInRange(partition: Int, offset: Long): Boolean = partition >= 0 && offset >= 0 && offset < OffsetLimit

  /** @return null if the partition or the offset can't be one */
  def encode(producerId: Long, partition: Int, offset: Long): Array[Byte] =
    if (!isInRange(partition, offset)) null
    else ByteBuffer.allocate(Length).putInt(Tag).putLong(producerId).putInt(partition).putLong(offset).array

  /** Whether 20 bytes without a tag are metadata rather than some other key: no text is, for its bytes are 0x20 or more
    * where these have the first byte of the partition, which is 0, and of the offset.
    */
  def isPlausible(partition: Int, offset: Long): Boolean = (partition >>> 24) == 0 && (offset >>> 61) == 0

  /** Whether these bytes are a record's metadata, in one form or the other. Null isn't. */
  def isValid(bytes: Array[Byte]): Boolean = bytes != null && {
    if (bytes.length == Length) {
      ByteBuffer.wrap(bytes).getInt(0) == Tag && isInRange(partition(bytes), offset(bytes))
    } else bytes.length == UntaggedLength && partition(bytes) >= 0 && offset(bytes) >= 0
  }

  private def start(bytes: Array[Byte]): Int = bytes.length - UntaggedLength

  def producerId(bytes: Array[Byte]): Long = ByteBuffer.wrap(bytes).getLong(start(bytes))
  def partition(bytes: Array[Byte]): Int = ByteBuffer.wrap(bytes).getInt(start(bytes) + PartitionAt)
  def offset(bytes: Array[Byte]): Long = ByteBuffer.wrap(bytes).getLong(start(bytes) + OffsetAt)

  /** The one with the greater offset, of one producer and partition; either may be null.
    *
    * @throws io.tailrace.common.TailraceStateException TAILRACE_METADATA_MIXED if they are of two
    */
  def later(a: Array[Byte], b: Array[Byte]): Array[Byte] =
    if (a == null) b
    else if (b == null) a
    else if (producerId(a) != producerId(b) || partition(a) != partition(b)) {
      throw MetadataErrors.mixed(describe(a), describe(b))
    } else if (offset(a) >= offset(b)) a
    else b

  private def describe(bytes: Array[Byte]): String =
    s"producer ${producerId(bytes)}, partition ${partition(bytes)}"
}
