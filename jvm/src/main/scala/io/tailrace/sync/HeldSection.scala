package io.tailrace.sync

import io.tailrace.common.StepwiseRows
import io.tailrace.state._

/** A section of held-right in one batch, with the batch's position in it.
  *
  * @param number   in the index
  * @param unjoined its rows that count, if the index doesn't have them; none: the index does
  */
private[sync] final class HeldSection(val live: LiveSection, val number: Int, val unjoined: Option[GoneRows])
    extends AutoCloseable {
  private var cursor: RunCursor = _

  /** Rows of it that have left. */
  var gone: Long = live.section.expiredRows

  def rows: Long = live.section.rows - gone
  def version: Long = live.local.version.get
  def isIndexed: Boolean = unjoined.isEmpty

  /** The cursor, at the first row with this key or a greater one. Keys must come in ascending order. */
  def to(base: AnyRef, at: Long): RunCursor = {
    if (cursor == null) {
      cursor = live.cursor()
      cursor.seekKey(base, at)
    } else cursor.advanceTo(base, at)
    cursor
  }

  override def close(): Unit = if (cursor != null) {
    cursor.close()
    cursor = null
  }
}

/** The sections of held-right that the index has no memory for, in one batch. A key is looked up in the sections
  * themselves, which are sorted by key, forward once:
  *
  * {{{
  *   key ──> sections of the times that its left rows reach ──> filters of pages ──> a page, if it may hold it
  * }}}
  *
  * @param reach right rows after this time are joined by no left row of the batch. A section of such rows isn't
  *              read, so it isn't known, either, whether a left row is emitted alone because its right row is
  *              too far away
  */
private[sync] final class UnindexedRight(reach: Long) extends AutoCloseable {
  private var sections = new Array[HeldSection](0)
  private var cursors = new Array[KeyCursor](0)
  private var prefixes = new Array[Long](0)
  private var minTimes = new Array[Long](0)
  private var maxTimes = new Array[Long](0)
  private var open = 0
  private val sought = new SoughtKey

  def isEmpty: Boolean = sections.isEmpty

  /** Begins with the sections that there are when all rows of the batch have been read. */
  def start(all: Seq[HeldSection]): Unit = {
    sections = all.filter(held => !held.isIndexed && held.live.section.minTime <= reach).toArray
    LiveSection.prepare(sections.toSeq.map(_.live))
    cursors = new Array[KeyCursor](sections.length)
    prefixes = new Array[Long](sections.length)
    minTimes = sections.map(_.live.section.minTime)
    maxTimes = sections.map(_.live.section.maxTime)
    sections.foreach { held =>
      cursors(open) = new KeyCursor(held.live)
      prefixes(open) = cursors(open).keyPrefix
      open += 1
    }
  }

  /** Calls `row` at the rows of a key that count. Keys must come in ascending order.
    *
    * @param range of the key's first left row
    * @param isAll whether no other left row has the key
    */
  def foreachRow(base: AnyRef, at: Long, range: JoinRange, isAll: Boolean)(
      row: (HeldSection, RunCursor) => Unit
  ): Unit = {
    // The others of its left rows are later.
    val (from, through) = (range.earliest, if (isAll) range.latest else reach)
    val prefix = RowLayout.keyPrefix(base, at)
    sought.set(base, at)
    var i = 0
    while (i < open) {
      val cursor = cursors(i)
      val isReached = maxTimes(i) >= from && minTimes(i) <= through
      if (isReached && !cursor.isAtEnd && java.lang.Long.compareUnsigned(prefixes(i), prefix) <= 0) {
        if (cursor.advanceTo(sought)) {
          visit(sections(i), cursor.rows, base, at)(row)
          cursor.settle()
        }
        if (!cursor.isAtEnd) prefixes(i) = cursor.keyPrefix
      }
      i += 1
    }
  }

  /** Does the same, and reads rows again that have been passed. */
  def foreachRowAgain(base: AnyRef, at: Long)(row: (HeldSection, RunCursor) => Unit): Unit =
    sections.foreach { held =>
      val cursor = held.live.cursor()
      try {
        cursor.seekKey(base, at)
        visit(held, cursor, base, at)(row)
      } finally cursor.close()
    }

  private def visit(held: HeldSection, rows: RunCursor, base: AnyRef, at: Long)(
      row: (HeldSection, RunCursor) => Unit
  ): Unit =
    while (rows.isValid && rows.compareKey(base, at) == 0) {
      if (!held.unjoined.get.contains(rows.seq)) row(held, rows)
      rows.next()
    }

  override def close(): Unit = {
    (0 until open).foreach(cursors(_).close())
    open = 0
  }
}

/** Gives the unjoined right rows of some sections, up to a time. Each is at the cursor, until the next step.
  *
  * @param isLive whether the row at the cursor hasn't left its section
  */
private[sync] final class ExpiringRight(
    sections: Seq[HeldSection],
    through: Long,
    isLive: (HeldSection, RunCursor) => Boolean
) extends StepwiseRows[RunCursor]
    with AutoCloseable {
  private val pending = sections.iterator
  private var cursor: Option[RunCursor] = None
  private var section: HeldSection = _
  private var isPassed = false

  override protected def step(): RunCursor = cursor match {
    case Some(at) if at.isValid && !isPassed =>
      isPassed = true
      if (at.time <= through && isLive(section, at)) at else null
    case Some(at) if at.isValid =>
      isPassed = false
      at.next()
      null
    case _ =>
      close()
      if (pending.hasNext) open(pending.next()) else end()
      null
  }

  private def open(held: HeldSection): Unit = {
    val opened = held.live.cursor()
    cursor = Some(opened)
    section = held
    opened.first()
  }

  override def close(): Unit = {
    cursor.foreach(_.close())
    cursor = None
  }
}
