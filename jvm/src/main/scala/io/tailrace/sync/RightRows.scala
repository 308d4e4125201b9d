package io.tailrace.sync

import java.util.Arrays

import scala.annotation.tailrec
import scala.collection.mutable.ArrayBuffer

import io.tailrace.common.RowMemoryExhausted
import io.tailrace.state._

/** Finds the right rows that a left row joins, in memory and in the state. Left rows come by key, and those
  * of a key by time.
  */
private[sync] final class RightRows(
    settings: SyncSettings,
    newRight: NewRight,
    bufferedRight: BufferedRight,
    val found: FoundRows,
    spare: SpareRight
) extends AutoCloseable {
  private val range = new JoinRange(settings)

  /** Moves the right rows that the left row joins into [[found]]. The first left row of a key reads them. */
  def take(left: OrderedRows): Unit = {
    val base = left.base
    val at = left.at
    range.around(RowLayout.time(base, at))
    found.clear()
    if (left.isFirst) {
      spare.clear()
      newRight.take(left.keyPrefix, base, at, range, found, spare)
      bufferedRight.take(base, at, range, left.isLast, found, spare)
    } else if (spare.isOverflown) {
      newRight.takeAgain(range, found)
      bufferedRight.takeAgain(base, at, range, found)
    } else if (!spare.isEmpty) spare.take(range, found, newRight, bufferedRight)
  }

  /** True if the key has had right rows that are out of reach. */
  def hasTooFar: Boolean = spare.hasSeen

  /** No more left rows come. */
  def endTaking(): Unit = bufferedRight.endTaking()

  override def close(): Unit = {
    bufferedRight.close()
    found.close()
    spare.close()
  }
}

/** The right rows of the state in one batch. Finds the rows of a key by the index, reads them in their
  * sections, and marks those that leave.
  *
  * {{{
  *   key ──> index ──> sections that have rows of it ──> cursors, forward once in a batch ──> rows
  *                                                                      └─> marks: joined-right
  * }}}
  *
  * Sections that the index has no memory for are looked through themselves.
  *
  * @param reach  right rows after this time are joined by no left row of the batch
  * @param memory of the version that the batch begins with
  */
private[sync] final class BufferedRight(
    store: TailraceStateStore,
    hash: KeyHash,
    rowMemory: RowMemory,
    bufferBytes: Long,
    reach: Long,
    memory: RightMemory
) extends AutoCloseable {
  private val index = memory.index

  // By their numbers in the index; null where a number is free. Each row that is found asks here.
  private val sections = new ArrayBuffer[HeldSection]
  store.sectionsOf(StoreKind.HeldRight).foreach(live => enter(memory.section(live)): Unit)
  private val unindexed = new UnindexedRight(reach)

  private val marks = new SyncMarks(StoreKind.JoinedRight, store, rowMemory, bufferBytes).prepare()
  private var taken = 0L
  private var unjoined: Option[ExpiringRight] = None

  /** Rows that have left the state in this batch. */
  def rowsGone: Long = taken

  private def enter(held: HeldSection): HeldSection = {
    while (sections.size <= held.number) sections += null
    sections(held.number) = held
    held
  }

  /** A copy: a section may be dropped meanwhile. */
  private def all: Seq[HeldSection] = sections.iterator.filter(_ != null).toSeq

  /** Adds rows that have been written into the state.
    *
    * @param added the sections of the run that were written from `rows`, among others
    */
  def add(rows: SortedRows, added: Seq[LiveSection]): Unit = {
    var position = 0
    added.filter(_.section.kind == StoreKind.HeldRight).foreach { live =>
      val end = position + live.section.rows.toInt
      var held = enter(memory.add(live, makeRoom(live.section)))
      while (position < end && held.isIndexed) {
        val row = rows.order(position)
        if (!index.insert(hash.of(rows.rows.base(row), rows.rows.at(row)), held.number, rows.rows.seq(row)))
          held = leaveOut(held)
        position += 1
      }
      position = end
    }
  }

  /** Makes room in the index for a section, in the place of later ones. @return whether there is */
  @tailrec private def makeRoom(section: Section): Boolean = index.makeRoom(section.rows.toInt) || {
    val last = all.filter(_.isIndexed).maxByOption(_.live.section.minTime)
    last.exists(_.live.section.minTime > section.minTime) && {
      leaveOut(last.get): Unit
      makeRoom(section)
    }
  }

  private def leaveOut(held: HeldSection): HeldSection = {
    held.close()
    sections(held.number) = null
    enter(memory.leaveOut(held)(isLive(held, _)))
  }

  private def isLive(held: HeldSection, row: RunCursor): Boolean = held.unjoined match {
    case Some(gone) => !gone.contains(row.seq)
    case None => index.contains(hash.of(row.base, row.at), held.number, row.seq)
  }

  /** No more rows are added. */
  def start(): Unit = unindexed.start(all)

  /** Takes the rows that the first left row of a key joins; they leave the state. Keys must come in ascending
    * order.
    *
    * @param base  a row with the key
    * @param isAll whether no other left row has the key
    * @param spare gets those that are too young for this left row, but maybe not for a later one
    */
  def take(
      base: AnyRef,
      at: Long,
      range: JoinRange,
      isAll: Boolean,
      found: FoundRows,
      spare: SpareRight
  ): Unit = {
    if (index.size > 0) takeIndexed(base, at, range, found, spare)
    if (!unindexed.isEmpty)
      unindexed.foreachRow(base, at, range, isAll) { (held, row) =>
        if (range.has(row.time)) joined(held, row, found)
        else spare.addHeld(row.base, row.at, held.number, range)
      }
  }

  private def takeIndexed(
      base: AnyRef,
      at: Long,
      range: JoinRange,
      found: FoundRows,
      spare: SpareRight
  ): Unit = {
    val code = hash.of(base, at)
    var entry = index.first(code)
    while (entry >= 0) {
      val held = sections(index.section(entry))
      val cursor = held.to(base, at)
      while (cursor.isValid && cursor.compareKey(base, at) == 0) {
        if (index.has(entry, cursor.seq)) {
          if (range.has(cursor.time)) joined(held, entry, cursor, found)
          else spare.addHeld(cursor.base, cursor.at, held.number, range)
        }
        cursor.next()
      }
      entry = index.next(code, entry)
    }
  }

  /** Does the same for a later left row of the key: reads all rows again that are not taken. */
  def takeAgain(base: AnyRef, at: Long, range: JoinRange, found: FoundRows): Unit = {
    val code = hash.of(base, at)
    var entry = index.first(code)
    while (entry >= 0) {
      val held = sections(index.section(entry))
      val cursor = held.live.cursor()
      try {
        cursor.seekKey(base, at)
        while (cursor.isValid && cursor.compareKey(base, at) == 0) {
          if (range.has(cursor.time) && index.has(entry, cursor.seq)) joined(held, entry, cursor, found)
          cursor.next()
        }
      } finally cursor.close()
      entry = index.next(code, entry)
    }
    if (!unindexed.isEmpty)
      unindexed.foreachRowAgain(base, at)((held, row) => if (range.has(row.time)) joined(held, row, found))
  }

  private def joined(held: HeldSection, entry: Int, row: RunCursor, found: FoundRows): Unit = {
    found.add(row.base, row.at)
    index.remove(entry, row.seq)
    left(held, row.seq)
  }

  private def joined(held: HeldSection, row: RunCursor, found: FoundRows): Unit = {
    found.add(row.base, row.at)
    held.unjoined.get.add(row.seq)
    left(held, row.seq)
  }

  /** Takes one row.
    *
    * @param base a copy of it
    */
  def takeRow(base: AnyRef, at: Long, section: Int): Unit =
    remove(sections(section), base, at, RowLayout.seq(base, at))

  private def remove(held: HeldSection, base: AnyRef, at: Long, seq: Long): Unit = {
    held.unjoined match {
      case Some(gone) => gone.add(seq)
      case None => index.remove(hash.of(base, at), held.number, seq)
    }
    left(held, seq)
  }

  private def left(held: HeldSection, seq: Long): Unit = {
    held.gone += 1
    taken += 1
    marks.add(held.version, seq)
  }

  /** Hands out the living rows of a run, keeps the marks that are in it, and forgets the run.
    *
    * @param keep takes the row at the cursor
    */
  def carry(run: LocalRun, keep: RunCursor => Unit): Unit = {
    all.filter(_.live.local eq run).foreach { held =>
      readLive(held)(keep)
      drop(held)
    }
    marks.carry(run)
  }

  private def readLive(held: HeldSection)(row: RunCursor => Unit): Unit =
    held.live.foreachRow(cursor => if (isLive(held, cursor)) row(cursor))

  private def drop(held: HeldSection): Unit = {
    held.close()
    memory.drop(held)
    sections(held.number) = null
  }

  /** No more keys come. */
  def endTaking(): Unit = {
    all.foreach(_.close())
    unindexed.close()
  }

  /** Removes the rows up to `through`: a section as a whole if all of its rows go. @return how many */
  def expire(through: Long): Long = {
    unjoined.foreach(_.close())
    val (whole, parts) = reached(through).partition(_.live.section.maxTime <= through)
    val rows = whole.map(_.rows).sum
    whole.foreach(drop)
    taken += rows
    rows + parts.map(expireSome(_, through)).sum
  }

  /** The sections with rows that expire now. Rows that expired in earlier batches have left, but this batch
    * may have written some that are as old.
    */
  private def reached(through: Long): Seq[HeldSection] = {
    val isLater = through > store.operatorTime
    all.filter(h => h.live.section.minTime <= through && (isLater || h.version > store.version))
  }

  private def expireSome(held: HeldSection, through: Long): Long = {
    val before = held.gone
    readLive(held) { row =>
      if (row.time <= through) remove(held, row.base, row.at, row.seq)
    }
    held.gone - before
  }

  /** Gives the rows that `expire` will remove. */
  def expiring(through: Long): Iterator[RunCursor] = {
    val rows = new ExpiringRight(reached(through), through, isLive)
    unjoined = Some(rows)
    rows
  }

  /** The marks whose sections are still there, sorted, to be written with the batch's run. */
  def marksLeft: SortedRows = {
    all.filter(_.rows == 0).foreach(drop)
    marks.of(all.map(_.version).toSet)
  }

  /** Notifies the store of the evicted rows. */
  def settle(): Unit = {
    store.settle(
      StoreKind.HeldRight,
      live => memory.numbers.get(RightMemory.key(live)).fold(live.section.rows)(sections(_).gone)
    )
    marks.settle(all.map(_.version).toSet)
    memory.settle(all)
  }

  override def close(): Unit = {
    endTaking()
    unjoined.foreach(_.close())
    marks.close()
  }
}

/** The right rows in memory when left rows are decided: those that the batch has read, and those that it
  * carries forward. They are sorted by key once, for the matching and for the run that is written.
  */
private[sync] final class NewRight(rows: RowBuffer) {
  private var order = new Array[Int](0)
  private var gone = new Array[Boolean](0) // by row number
  private var position = 0
  private var keyStart = 0

  /** Sorts the rows. All must be in the buffer. */
  def start(): Unit = {
    order = RowSort.byKeyTimeAndSeq(rows)
    gone = new Array[Boolean](order.length)
  }

  /** Takes the rows that the first left row of a key joins. Keys must come in ascending order.
    *
    * @param base  a row with the key
    * @param found gets the rows
    * @param spare gets those that are too young for this left row, but maybe not for a later one
    */
  def take(
      keyPrefix: Long,
      base: AnyRef,
      at: Long,
      range: JoinRange,
      found: FoundRows,
      spare: SpareRight
  ): Unit = {
    while (position < order.length && compare(order(position), keyPrefix, base, at) < 0) position += 1
    keyStart = position
    while (position < order.length && compare(order(position), keyPrefix, base, at) == 0) {
      val row = order(position)
      val time = rows.time(row)
      if (range.has(time)) {
        found.add(rows.base(row), rows.at(row))
        gone(row) = true
      } else spare.addNew(rows.base(row), rows.at(row), row, range)
      position += 1
    }
  }

  /** Does the same for a later left row of the key: looks at all rows again that are not taken. */
  def takeAgain(range: JoinRange, found: FoundRows): Unit = {
    var i = keyStart
    while (i < position) {
      val row = order(i)
      if (!gone(row) && range.has(rows.time(row))) {
        found.add(rows.base(row), rows.at(row))
        gone(row) = true
      }
      i += 1
    }
  }

  /** Takes one row, by its number. */
  def takeRow(row: Int): Unit = gone(row) = true

  private def compare(row: Int, keyPrefix: Long, base: AnyRef, at: Long): Int = {
    val byPrefix = java.lang.Long.compareUnsigned(rows.keyPrefix(row), keyPrefix)
    if (byPrefix != 0) byPrefix else RowLayout.compareKeysBeyondPrefix(rows.base(row), rows.at(row), base, at)
  }

  /** The rows that are not taken, up to `through` or after it, by key, time and sequence number. */
  def rest(through: Long, after: Boolean): Array[Int] = {
    val kept = new Array[Int](order.length)
    var count = 0
    var i = 0
    while (i < order.length) {
      val row = order(i)
      if (!gone(row) && (rows.time(row) > through) == after) {
        kept(count) = row
        count += 1
      }
      i += 1
    }
    if (count == kept.length) kept else Arrays.copyOf(kept, count)
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
  def take(range: JoinRange, found: FoundRows, newRight: NewRight, bufferedRight: BufferedRight): Unit = {
    if (order == null) order = RowSort.byTime(rows)
    while (next < order.length && !range.isBeyond(rows.time(order(next)))) {
      val row = order(next)
      if (range.has(rows.time(row))) {
        val (base, at) = (rows.base(row), rows.at(row))
        found.add(base, at)
        if (from(row) < 0) newRight.takeRow(~from(row)) else bufferedRight.takeRow(base, at, from(row))
      }
      next += 1
    }
  }

  override def close(): Unit = rows.close()
}

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
    parts += store.scratch(SortedRows.all(ScratchKind.ByKeyTimeAndSeq, rest, Long.MaxValue))
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
