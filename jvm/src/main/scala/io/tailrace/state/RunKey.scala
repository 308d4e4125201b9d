package io.tailrace.state

import java.nio.ByteBuffer

/** The key of one entry of a sorted run (format 1, `jvm/docs/formats.md`):
  *
  * {{{
  *   time-sorted  store(1) bucket(8) time(8) seq(8) key(n)
  *   key-sorted   store(1) bucket(8) key(n) time(8) seq(8)
  * }}}
  *
  * Longs are big-endian with the sign bit flipped, so that bytes compare as numbers do; `key` is an [[KeyEncoder]]
  * encoding. `seq` is unique in a partition for all time, which keeps rows with equal key and time apart: an id that is
  * unique only in its batch would let a newer row replace an older one in silence.
  */
object RunKey {
  val BucketOffset = 1
  val PrefixLength = 9
  private val TimeAndSeqLength = 16
  val FixedLength: Int = PrefixLength + TimeAndSeqLength

  private def flip(value: Long): Long = value ^ Long.MinValue

  /** Writes the key at the buffer's start and makes it ready to be read. The buffer must be big-endian. */
  def write(
      into: ByteBuffer,
      kind: StoreKind,
      bucket: Long,
      key: Array[Byte],
      keyLength: Int,
      time: Long,
      seq: Long
  ): Unit = {
    into.clear()
    into.put(kind.id).putLong(flip(bucket))
    if (kind.timeSorted) into.putLong(flip(time)).putLong(seq).put(key, 0, keyLength)
    else into.put(key, 0, keyLength).putLong(flip(time)).putLong(seq)
    into.flip()
  }

  /** The least key of a bucket, to seek to. */
  def writePrefix(into: ByteBuffer, kind: StoreKind, bucket: Long): Unit = {
    into.clear()
    into.put(kind.id).putLong(flip(bucket)).flip()
  }

  /** A key before all entries of a time-sorted bucket at `time` or later. */
  def writeTimeBound(into: ByteBuffer, kind: StoreKind, bucket: Long, time: Long): Unit = {
    into.clear()
    into.put(kind.id).putLong(flip(bucket)).putLong(flip(time)).flip()
  }

  def time(entry: ByteBuffer, kind: StoreKind, length: Int): Long =
    flip(entry.getLong(if (kind.timeSorted) PrefixLength else length - TimeAndSeqLength))

  def seq(entry: ByteBuffer, kind: StoreKind, length: Int): Long =
    entry.getLong(if (kind.timeSorted) PrefixLength + 8 else length - 8)

  def keyOffset(kind: StoreKind): Int = if (kind.timeSorted) FixedLength else PrefixLength

  def isIn(entry: ByteBuffer, kind: StoreKind, bucket: Long): Boolean =
    entry.get(0) == kind.id && entry.getLong(BucketOffset) == flip(bucket)
}
