package io.tailrace.label

import io.tailrace.state._

/** The rows that look for their matches, a chunk at a time. */
private[label] trait ProbeRows extends AutoCloseable {

  /** Appends rows to an empty chunk, at least one if any is left.
    *
    * @return their numbers in the order of key and time
    */
  def fill(chunk: RowBuffer, share: MemoryShare): Array[Int]
}

/** The rows of key-sorted sections, one section after the other. */
private[label] final class SectionProbes(sections: Seq[LiveSection]) extends ProbeRows {
  private var share: MemoryShare = _
  private val chunks = new SectionChunks(sections) {
    override protected def isFull(bytes: Long): Boolean = share.isFull(bytes)
  }

  override def fill(chunk: RowBuffer, of: MemoryShare): Array[Int] = {
    share = of
    chunks.fill(chunk)
    Array.range(0, chunk.size)
  }

  override def close(): Unit = chunks.close()
}

/** Rows that are in order already. */
private[label] final class SortedProbes(rows: OrderedRows) extends ProbeRows {
  private var isThere = rows.next()

  def isEmpty: Boolean = !isThere

  override def fill(chunk: RowBuffer, share: MemoryShare): Array[Int] = {
    def hasRoom = chunk.isEmpty || !share.isFull(chunk.bytes)
    while (isThere && hasRoom && chunk.appendIfRoom(rows.base, rows.at)) isThere = rows.next()
    Array.range(0, chunk.size)
  }

  override def close(): Unit = rows.close()
}
