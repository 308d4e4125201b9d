package io.tailrace.state

import org.roaringbitmap.longlong.Roaring64Bitmap

/** The rows of a store that are marked as gone, by sequence number. Their sections still have them. Numbers of a
  * batch are close together, so a row takes about two bytes, or fewer.
  */
final class GoneRows {
  private val seqs = new Roaring64Bitmap
  // Most stores have no such rows, and each row that is read is asked for.
  private var any = false

  def add(seq: Long): Unit = {
    seqs.addLong(seq)
    any = true
  }

  def contains(seq: Long): Boolean = any && seqs.contains(seq)

  def size: Long = seqs.getLongCardinality

  /** Bytes of memory. */
  def bytes: Long = seqs.getLongSizeInBytes
}

object GoneRows {

  /** @param sections all of a version
    * @param kind     the store
    */
  def of(sections: Seq[LiveSection], kind: StoreKind): GoneRows = {
    val gone = new GoneRows
    marking(sections, kind).foreach(_.foreachRow(cursor => gone.add(cursor.seq)))
    gone
  }

  /** The sections with the marks of a store. */
  private[state] def marking(sections: Seq[LiveSection], kind: StoreKind): Seq[LiveSection] =
    sections.filter(_.section.kind.marks.contains(kind))
}
