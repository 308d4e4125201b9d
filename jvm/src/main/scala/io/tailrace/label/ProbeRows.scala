package io.tailrace.label

import scala.collection.mutable.ArrayBuffer

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

/** The rows of key-sorted sections by key and time over all of them, and by content where these are equal: which row
  * comes first doesn't depend on arrival. Only if the rows of one key and time don't fit into a chunk, it does.
  */
private[label] final class OrderedProbes(sections: Seq[LiveSection]) extends ProbeRows {
  private val rows = new MergedSections(sections, RowOrder.Key, Long.MinValue)
  private val from = new ArrayBuffer[LiveSection]

  /** The section of a row of the last chunk. */
  def section(row: Int): LiveSection = from(row)

  override def fill(chunk: RowBuffer, share: MemoryShare): Array[Int] = {
    from.clear()
    while (!rows.isEmpty && hasRoom(chunk, share) && chunk.appendIfRoom(rows.head.base, rows.head.at)) {
      from += rows.headSection
      rows.drop()
    }
    new ContentOrder(chunk).sorted
  }

  private def hasRoom(chunk: RowBuffer, share: MemoryShare): Boolean = chunk.isEmpty || {
    val last = chunk.size - 1
    !share.isFull(chunk.bytes) ||
    (rows.head.time == chunk.time(last) && rows.head.compareKey(chunk.base(last), chunk.at(last)) == 0)
  }

  override def close(): Unit = rows.close()
}
