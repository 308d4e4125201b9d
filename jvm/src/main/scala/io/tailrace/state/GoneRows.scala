package io.tailrace.state

import org.roaringbitmap.longlong.Roaring64Bitmap

/** The rows of a store that are marked as gone, by sequence number. Their sections still have them. Numbers of a
  * batch are close together, so a row takes about two bytes, or fewer.
  */
final class GoneRows {
  private val seqs = new Roaring64Bitmap

  def add(seq: Long): Unit = seqs.addLong(seq)
  def contains(seq: Long): Boolean = seqs.contains(seq)

  /** Bytes of memory. */
  def bytes: Long = seqs.getLongSizeInBytes
}

object GoneRows {

  /** @param sections all of a version
    * @param kind     the store
    */
  def of(sections: Seq[LiveSection], kind: StoreKind): GoneRows = {
    val gone = new GoneRows
    sections
      .filter(_.section.kind.marks.contains(kind))
      .foreach(_.foreachRow(cursor => gone.add(cursor.seq)))
    gone
  }
}
