package io.tailrace.state

import java.nio.ByteBuffer
import java.util.concurrent.ArrayBlockingQueue

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
