package io.tailrace.state

import java.nio.ByteBuffer
import java.util.concurrent.ArrayBlockingQueue

import io.tailrace.common.ProcessPart

/** The key of a page in a run, made of the page's first row (format 2, `jvm/docs/formats.md`):
  *
  * {{{
  *   time-sorted  store(1) bucket(8) time(8) seq(8) key(n)
  *   key-sorted   store(1) bucket(8) key(n) time(8) seq(8)
  * }}}
  *
  * Longs are big-endian with the sign bit flipped, so that bytes compare as numbers do; `key` is an encoding
  * of [[KeyEncoder]]. `seq` is unique in a partition for all time. Were it unique only in its batch, a page
  * could silently replace another of the same key and time. In a store with the order time, seq, key, several
  * rows have one `seq`, and there the row's key is unique.
  */
object RunKey {

  /** Length of store and bucket. */
  val PrefixLength = 9

  /** Length of the page's key without the row's key: prefix, time and seq. */
  val FixedLength: Int = PrefixLength + 16

  private def flip(value: Long): Long = value ^ Long.MinValue

  /** Writes the key at the start of the buffer, and flips the buffer. The buffer must be big-endian. */
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

  /** Writes the lower bound of a section's keys, to seek to. */
  def writePrefix(into: ByteBuffer, kind: StoreKind, bucket: Long): Unit = {
    into.clear()
    into.put(kind.id).putLong(flip(bucket)).flip()
  }

  /** Writes a bound of a time-sorted store: the pages after it begin at `time` or later. */
  def writeTimeBound(into: ByteBuffer, kind: StoreKind, bucket: Long, time: Long): Unit = {
    into.clear()
    into.put(kind.id).putLong(flip(bucket)).putLong(flip(time)).flip()
  }

  /** Writes the same bound of a key-sorted store. */
  def writeKeyBound(into: ByteBuffer, kind: StoreKind, bucket: Long, key: Array[Byte]): Unit = {
    into.clear()
    into.put(kind.id).putLong(flip(bucket)).put(key).flip()
  }

  def isIn(entry: ByteBuffer, kind: StoreKind, bucket: Long): Boolean =
    entry.get(0) == kind.id && entry.getLong(1) == flip(bucket)
}

/** Memory for one page of a run: outside the heap for RocksDB, and on the heap, where rows are read. Cursors
  * and writers use buffers again, because to make one costs more than to read a small section.
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

  /** Makes room for `length` bytes, and keeps the content of [[bytes]]. */
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

  /** Calls `read` with the native buffer, and copies its content into [[bytes]].
    *
    * @param read fills the buffer as far as there is room, and returns the length of the whole
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

  /** Bytes of a page, unless its only row is larger. A block of the SST file has this size too. */
  val Capacity: Int = 16 << 10

  /** Buffers that are used again. Larger ones, and more of them, are left to the garbage collector. */
  private val spare = new ProcessPart("spare pages")(new ArrayBlockingQueue[PageBuffer](64))

  def take(): PageBuffer = Option(spare.here.poll()).getOrElse(new PageBuffer)

  /** @param buffer which the caller doesn't use any more */
  def giveBack(buffer: PageBuffer): Unit = if (buffer.heap.length == Capacity) spare.here.offer(buffer): Unit
}
