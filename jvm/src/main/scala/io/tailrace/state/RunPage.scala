package io.tailrace.state

import java.nio.ByteBuffer
import java.util.concurrent.ArrayBlockingQueue

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

/** Room for one page of a run: outside the heap, where RocksDB reads and writes it in one call, and on the heap, where
  * rows are read from it. Buffers are used again by the next cursor or writer of the executor, for making one costs more
  * than reading a small section.
  *
  * A page (format 2, `jvm/docs/formats.md`):
  *
  * {{{
  *   rows(4) offset of the last row(4), then the rows, in the bytes of RowLayout
  * }}}
  */
final class PageBuffer private () {
  private var native = ByteBuffer.allocateDirect(PageBuffer.Capacity)
  private var heap = new Array[Byte](PageBuffer.Capacity)

  def bytes: Array[Byte] = heap

  /** Makes room for `length` bytes; keeps what is in [[bytes]]. */
  def ensure(length: Int): Unit = if (heap.length < length) {
    heap = java.util.Arrays.copyOf(heap, length)
    native = ByteBuffer.allocateDirect(length)
  }

  /** The first `length` bytes of [[bytes]], ready for RocksDB to read. */
  def toNative(length: Int): ByteBuffer = {
    native.clear()
    native.put(heap, 0, length).flip()
    native
  }

  /** Has `read` fill the native buffer, and copies what it gave into [[bytes]].
    *
    * @param read fills as much of the buffer as there is room for. @return the length of the whole
    * @return that length
    */
  def fromNative(read: ByteBuffer => Int): Int = {
    native.clear()
    var length = read(native)
    if (length > native.capacity) {
      ensure(length)
      native.clear()
      length = read(native)
    }
    native.get(0, heap, 0, length)
    length
  }
}

object PageBuffer {
  val HeaderLength = 8
  val RowsAt = 0
  val LastRowAt = 4

  /** Bytes of a page, unless its only row is larger: as much as a block of the SST file holds, so that a page is a block. */
  val Capacity: Int = 16 << 10

  /** Kept for the next one who asks; larger buffers and more of them are left to the garbage collector. */
  private val spare = new ArrayBlockingQueue[PageBuffer](64)

  def take(): PageBuffer = Option(spare.poll()).getOrElse(new PageBuffer)

  /** @param buffer not to be used by the caller any more */
  def giveBack(buffer: PageBuffer): Unit = if (buffer.heap.length == Capacity) spare.offer(buffer)
}
