package io.tailrace.sync

import scala.collection.mutable.ArrayBuffer

import io.tailrace.common.RowMemoryExhausted
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

/** Copies of the right rows of a key that are too young for its left rows so far. A later left row of the
  * same batch may join them, and a section is read only once, forward. The rows themselves stay where they
  * are until a left row joins them.
  */
private[sync] final class SpareRight(memory: RowMemory, bufferBytes: Long) extends AutoCloseable {
  private val rows = new RowBuffer(memory).prepare()
  private var overflown = false
  private val from = new ArrayBuffer[Int] // the section; or, below zero, a row of the batch
  private var seen = false

  // The rows by time, and the first of them that a further left row may join.
  private var order: Array[Int] = _
  private var next = 0

  /** True if there were too many rows. Then none is here, and the key's rows must be read again. */
  def isOverflown: Boolean = overflown

  def clear(): Unit = if (seen) {
    overflown = false
    rows.clear()
    from.clear()
    order = null
    next = 0
    seen = false
  }

  def isEmpty: Boolean = next == from.size

  /** True if the key has had rows that are out of reach, older or younger. */
  def hasSeen: Boolean = seen

  /** @param row its number among the rows in memory */
  def addNew(base: AnyRef, at: Long, row: Int, range: JoinRange): Unit = add(base, at, ~row, range)

  def addHeld(base: AnyRef, at: Long, section: Int, range: JoinRange): Unit = add(base, at, section, range)

  private def add(base: AnyRef, at: Long, where: Int, range: JoinRange): Unit = {
    seen = true
    // Left rows come by time: a row that is too old for one is too old for the next.
    if (!overflown && range.isBeyond(RowLayout.time(base, at))) {
      overflown = !keep(base, at)
      if (overflown) {
        rows.clear()
        from.clear()
      } else from += where
    }
  }

  private def keep(base: AnyRef, at: Long): Boolean = rows.bytes <= bufferBytes && {
    try {
      rows.appendRow(base, at): Unit
      true
    } catch { case _: RowMemoryExhausted => false }
  }

  /** Takes the rows in range. Each row is read once: left rows come in the order of time, so the first
    * one that reaches a row takes it, and a row that is too old for one is too old for the next.
    */
  def take(range: JoinRange, found: FoundRows, newRight: NewRight, heldRight: HeldRight): Unit = {
    if (order == null) order = RowSort.byTime(rows)
    while (next < order.length && !range.isBeyond(rows.time(order(next)))) {
      val row = order(next)
      if (range.has(rows.time(row))) {
        val (base, at) = (rows.base(row), rows.at(row))
        found.add(base, at)
        if (from(row) < 0) newRight.takeRow(~from(row)) else heldRight.takeRow(base, at, from(row))
      }
      next += 1
    }
  }

  override def close(): Unit = rows.close()
}
