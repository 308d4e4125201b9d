package io.tailrace.state

import java.nio.ByteBuffer

/** The key of a page in a run, made of the page's first row (format 2, `jvm/docs/formats.md`):
  *
  * {{{
  *   time-sorted  store(1) bucket(8) time(8) seq(8) key(n)
  *   key-sorted   store(1) bucket(8) key(n) time(8) seq(8)
  * }}}
  *
  * Longs are big-endian with the sign bit flipped, so that bytes compare as numbers do; `key` is an [[KeyEncoder]]
  * encoding. `seq` is unique in a partition for all time, which keeps pages apart that begin with equal key and time (in
  * the joined-indicator store, where it is the left row's, the key does): an id that is unique only in its batch would let
  * one page replace another in silence.
  */
object RunKey {

  /** Of store and bucket. */
  val PrefixLength = 9
  private val TimeAndSeqLength = 16

  /** All of the key but the row's own. */
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

  /** The least key of a section, to seek to. */
  def writePrefix(into: ByteBuffer, kind: StoreKind, bucket: Long): Unit = {
    into.clear()
    into.put(kind.id).putLong(flip(bucket)).flip()
  }

  /** Not after any page that begins at `time` or later, and not before any that begins earlier; of a time-sorted store. */
  def writeTimeBound(into: ByteBuffer, kind: StoreKind, bucket: Long, time: Long): Unit = {
    into.clear()
    into.put(kind.id).putLong(flip(bucket)).putLong(flip(time)).flip()
  }

  /** The same for a key, of a key-sorted store. */
  def writeKeyBound(
      into: ByteBuffer,
      kind: StoreKind,
      bucket: Long,
      key: Array[Byte],
      keyLength: Int
  ): Unit = {
    into.clear()
    into.put(kind.id).putLong(flip(bucket)).put(key, 0, keyLength).flip()
  }

  def isIn(entry: ByteBuffer, kind: StoreKind, bucket: Long): Boolean =
    entry.get(0) == kind.id && entry.getLong(1) == flip(bucket)
}
