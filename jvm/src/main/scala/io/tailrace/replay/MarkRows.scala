package io.tailrace.replay

import java.util.Arrays

/** Rows of longs, all of one width, in chunks that copies share until one of them writes to a chunk. A batch
  * moves a part of the marks, and the table before it stays as it is:
  *
  * {{{
  *   before   chunk 0   chunk 1   chunk 2
  *               │         │
  *   after    chunk 0   chunk 1   chunk 2'  chunk 3      one mark has moved, some have been added
  * }}}
  *
  * A row's numbers stand together, so that a look-up touches one line of the processor's cache. Several threads may
  * read while no thread writes.
  */
private[replay] final class MarkRows(width: Int) {
  import MarkRows._

  private var chunks = new Array[Array[Long]](4)
  private var isOwn = new Array[Boolean](4)

  def apply(row: Int, field: Int): Long = chunks(row >>> Bits)((row & Mask) * width + field)

  def update(row: Int, field: Int, value: Long): Unit = own(row)((row & Mask) * width + field) = value

  /** The chunk of a row, to be written to, and made if there is none. */
  private def own(row: Int): Array[Long] = {
    val chunk = row >>> Bits
    if (chunk >= chunks.length) {
      chunks = Arrays.copyOf(chunks, chunks.length * 2)
      isOwn = Arrays.copyOf(isOwn, chunks.length)
    }
    if (!isOwn(chunk)) {
      chunks(chunk) = if (chunks(chunk) == null) new Array[Long](width << Bits) else chunks(chunk).clone()
      isOwn(chunk) = true
    }
    chunks(chunk)
  }

  /** Copies a row of others of the same width. */
  def set(row: Int, from: MarkRows, other: Int): Unit =
    System.arraycopy(
      from.chunks(other >>> Bits),
      (other & Mask) * width,
      own(row),
      (row & Mask) * width,
      width
    )

  /** A copy. Neither is changed by what the other one writes. */
  def copy(): MarkRows = {
    val same = new MarkRows(width)
    same.chunks = chunks.clone()
    same.isOwn = new Array[Boolean](chunks.length)
    isOwn = new Array[Boolean](chunks.length)
    same
  }
}

private object MarkRows {

  /** 256 rows: a batch that moves few marks copies little, and a task of few origins takes little. */
  private val Bits = 8
  private val Mask = (1 << Bits) - 1
}
