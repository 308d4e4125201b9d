package io.tailrace.sync

import scala.annotation.tailrec
import scala.collection.mutable.ArrayBuffer

import io.tailrace.state._

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
private[sync] final class HeldRight(
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

  /** Tells the store which rows are gone. */
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
