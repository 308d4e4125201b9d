package io.tailrace.sync

import scala.collection.mutable.ArrayBuffer

import io.tailrace.state._

/** Copies of the right rows that were found for a left row: the first one by time, which is joined, and the
  * number of all. Of rows at one time, the one whose bytes come first is joined: arrival decides nothing.
  *
  * @param keepsAll whether the others are kept, because they are emitted; in local files if they are too many
  */
private[sync] final class FoundRows(
    store: TailraceStateStore,
    memory: RowMemory,
    keepsAll: Boolean,
    bufferBytes: Long
) extends AutoCloseable {
  private val first = new RowBuffer(memory).prepare()
  private var found = 0L

  private val others = new FlushingRows(memory, bufferBytes, () => spill(), () => makeRoom())
  private val rest = others.rows
  private val parts = new ArrayBuffer[ScratchRun]
  // The position among the others: in memory, then in the files.
  private var position = -1
  private var sections = Iterator.empty[LiveSection]
  private var cursor: RunCursor = _

  def clear(): Unit = if (found > 0) {
    first.clear()
    // Most left rows find one right row, and there are no others.
    if (found > 1) {
      rest.clear()
      closeParts()
    }
    position = -1
    found = 0
  }

  /** The number of rows that were found. */
  def count: Long = found

  /** @param base see [[io.tailrace.state.RowLayout]] */
  def add(base: AnyRef, at: Long): Unit = {
    found += 1
    val better = first.isEmpty || {
      val byTime = java.lang.Long.compare(RowLayout.time(base, at), first.time(0))
      byTime < 0 || (byTime == 0 && isFirst(base, at))
    }
    if (better) {
      if (keepsAll && !first.isEmpty) others.appendRow(joinedBase, joinedAt)
      first.clear()
      first.appendRow(base, at): Unit
    } else if (keepsAll) others.appendRow(base, at)
  }

  private def isFirst(base: AnyRef, at: Long): Boolean = {
    val byValue = RowLayout.compareValues(base, at, joinedBase, joinedAt)
    byValue < 0 || (byValue == 0 && RowLayout.seq(base, at) < first.seq(0))
  }

  private def spill(): Unit = {
    parts += store.scratch(SortedRows.all(StoreKind.HeldRight, rest, Long.MaxValue))
    rest.clear()
  }

  private def makeRoom(): Boolean = !rest.isEmpty && {
    spill()
    rest.release()
    true
  }

  /** The row that is joined. */
  def joinedBase: AnyRef = first.base(0)
  def joinedAt: Long = first.at(0)

  /** Advances to the next of the other rows. All rows must have been found. @return false if there is none */
  def nextOther(): Boolean = {
    if (position + 1 < rest.size) position += 1
    else {
      position = rest.size
      if (cursor == null) sections = parts.iterator.flatMap(_.sections)
      else cursor.next()
      while ((cursor == null || !cursor.isValid) && sections.hasNext) {
        closeCursor()
        cursor = sections.next().cursor()
        cursor.first()
      }
    }
    position < rest.size || (cursor != null && cursor.isValid)
  }

  /** The position of that row, until the next one. */
  def otherBase: AnyRef = if (position < rest.size) rest.base(position) else cursor.base
  def otherAt: Long = if (position < rest.size) rest.at(position) else cursor.at

  private def closeCursor(): Unit = if (cursor != null) {
    cursor.close()
    cursor = null
  }

  private def closeParts(): Unit = {
    closeCursor()
    parts.foreach(_.close())
    parts.clear()
  }

  override def close(): Unit = {
    closeParts()
    first.close()
    rest.close()
  }
}
