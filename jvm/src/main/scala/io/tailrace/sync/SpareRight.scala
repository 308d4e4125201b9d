package io.tailrace.sync

import scala.collection.mutable.ArrayBuffer

import io.tailrace.common.RowMemoryExhausted
import io.tailrace.state.{RowBuffer, RowLayout, RowMemory, RowSort}

/** Which right rows a left row joins: those in a range of time around it.
  *
  * {{{
  *   left row 12:00:00, window 10 minutes, sync_delay 5 seconds   ->   right rows from 11:50:00 to 12:00:05
  * }}}
  */
private[sync] class JoinRange(settings: SyncSettings) {
  private var from = 0L
  private var through = 0L

  def around(time: Long): Unit = {
    from = SyncRules.joinsFrom(time, settings)
    through = SyncRules.joinsThrough(time, settings)
  }

  def has(time: Long): Boolean = time >= from && time <= through

  def isBeyond(time: Long): Boolean = time > through
}

/** Right rows of a key that are too young for the left rows of it so far, where a left row that comes out in the same batch
  * may still join them: a section is read forward once. They stay where they are until one does.
  */
private[sync] final class SpareRight(memory: RowMemory, bufferBytes: Long) extends AutoCloseable {
  private val rows = new RowBuffer(memory).prepare()
  private var overflown = false
  private val from = new ArrayBuffer[Int] // the section; or, below zero, a row of the batch
  private var seen = false

  // By time, when all are here, and the first of them that a further left row may join.
  private var order: Array[Int] = _
  private var next = 0

  /** Whether there were more than there is room for: then none is here, and the key's rows are to be read again. */
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

  /** Whether the key has had rows that are out of reach, older ones too. */
  def hasSeen: Boolean = seen

  /** @param row its number among the rows in memory */
  def addNew(base: AnyRef, at: Long, row: Int, range: JoinRange): Unit = add(base, at, ~row, range)

  def addHeld(base: AnyRef, at: Long, section: Int, range: JoinRange): Unit = add(base, at, section, range)

  private def add(base: AnyRef, at: Long, where: Int, range: JoinRange): Unit = {
    seen = true
    // Left rows come by time: what is too old for one is so for the next.
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

  /** Has those in range taken. Left rows come by time, so what is in range is taken by the first that reaches it, and what is
    * too old for one is so for the next: each row is looked at once.
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
