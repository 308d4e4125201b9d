package io.tailrace.sync

import scala.collection.mutable.ArrayBuffer

import io.tailrace.state._

/** The right rows of the state in one batch. Finds the rows of a key by the index, reads them in their
  * sections, and marks those that leave: a mark in joined-right has the row's sequence number, and as its
  * time the version whose run the row is in.
  *
  * {{{
  *   key ──> index ──> sections that have rows of it ──> cursors, forward once in a batch ──> rows
  *                                                                      └─> marks: joined-right
  * }}}
  */
private[sync] final class HeldRight(
    store: TailraceStateStore,
    hash: KeyHash,
    rowMemory: RowMemory,
    bufferBytes: Long
) extends AutoCloseable {
  import HeldRight.Held

  private val kept: Option[RightMemory] = store.takeKept().collect { case found: RightMemory => found }
  private val memory: RightMemory = kept.getOrElse(RightMemory.read(store, hash))
  private val index = memory.index

  // By their numbers in the index; null where a number is free. Each row that is found asks here.
  private val sections = new ArrayBuffer[Held]
  store.sectionsOf(StoreKind.HeldRight).foreach(live => enter(live, memory.numbers(RightMemory.key(live))))

  private val gathered =
    new FlushingRows(rowMemory, bufferBytes, () => writeMarks(): Unit, () => writeMarks())
  private val marks: RowBuffer = gathered.rows.prepare()
  private var taken = 0L
  private var unjoined: Option[ExpiringRight] = None

  /** Whether the index was made from the state. */
  def wasRead: Boolean = kept.isEmpty

  def indexBytes: Long = index.bytes

  /** Rows that have left the state in this batch. */
  def rowsGone: Long = taken

  private def enter(live: LiveSection, number: Int): Unit = {
    while (sections.size <= number) sections += null
    sections(number) = new Held(live, number)
  }

  /** A copy: a section may be dropped meanwhile. */
  private def all: Seq[Held] = sections.iterator.filter(_ != null).toSeq

  /** Adds rows that have been written into the state.
    *
    * @param added the sections of the run that were written from `rows`, among others
    */
  def add(rows: SortedRows, added: Seq[LiveSection]): Unit = {
    var position = 0
    added.filter(_.section.kind == StoreKind.HeldRight).foreach { live =>
      val number = index.newSection()
      memory.numbers(RightMemory.key(live)) = number
      enter(live, number)
      val end = position + live.section.rows.toInt
      while (position < end) {
        val row = rows.order(position)
        index.insert(hash.of(rows.rows.base(row), rows.rows.at(row)), number, rows.rows.seq(row))
        position += 1
      }
    }
  }

  /** Takes the rows that the first left row of a key joins; they leave the state. Keys must come in ascending
    * order.
    *
    * @param base  a row with the key
    * @param spare gets those that are too young for this left row, but maybe not for a later one
    */
  def take(base: AnyRef, at: Long, range: JoinRange, found: FoundRows, spare: SpareRight): Unit = if (
    index.size > 0
  ) {
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
  }

  private def joined(held: Held, entry: Int, row: RunCursor, found: FoundRows): Unit = {
    found.add(row.base, row.at)
    index.remove(entry, row.seq)
    left(held, row.seq)
  }

  /** Takes one row.
    *
    * @param base a copy of it
    */
  def takeRow(base: AnyRef, at: Long, section: Int): Unit =
    remove(sections(section), base, at, RowLayout.seq(base, at))

  private def remove(held: Held, base: AnyRef, at: Long, seq: Long): Unit = {
    index.remove(hash.of(base, at), held.number, seq)
    left(held, seq)
  }

  private def left(held: Held, seq: Long): Unit = {
    held.gone += 1
    taken += 1
    mark(held.version, seq)
  }

  private def mark(version: Long, seq: Long): Unit =
    gathered.append(HeldRight.Nothing, 0, version, seq, HeldRight.Nothing, 0L, 0)

  /** @return whether there were any */
  private def writeMarks(): Boolean = !marks.isEmpty && {
    store.addSorted(Seq(SortedRows.all(StoreKind.JoinedRight, marks, 1)))
    marks.clear()
    true
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
    store
      .sectionsOf(StoreKind.JoinedRight)
      .filter(_.local eq run)
      .foreach(_.foreachRow(cursor => mark(cursor.time, cursor.seq)))
  }

  private def readLive(held: Held)(row: RunCursor => Unit): Unit = held.live.foreachRow { cursor =>
    if (index.contains(hash.of(cursor.base, cursor.at), held.number, cursor.seq)) row(cursor)
  }

  private def drop(held: Held): Unit = {
    held.close()
    index.dropSection(held.number)
    memory.numbers -= RightMemory.key(held.live)
    sections(held.number) = null
  }

  /** No more keys come. */
  def endTaking(): Unit = all.foreach(_.close())

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
  private def reached(through: Long): Seq[Held] = {
    val isLater = through > store.operatorTime
    all.filter(h => h.live.section.minTime <= through && (isLater || h.version > store.version))
  }

  private def expireSome(held: Held, through: Long): Long = {
    val before = held.gone
    readLive(held) { row =>
      if (row.time <= through) remove(held, row.base, row.at, row.seq)
    }
    held.gone - before
  }

  /** Gives the rows that `expire` will remove. */
  def expiring(through: Long): Iterator[RunCursor] = {
    val rows = new ExpiringRight(reached(through).map(h => h.live -> h.number), through, index, hash)
    unjoined = Some(rows)
    rows
  }

  /** The marks whose sections are still there, sorted, to be written with the batch's run. */
  def marksLeft: SortedRows = {
    all.filter(_.rows == 0).foreach(drop)
    val versions = all.map(_.version).toSet
    SortedRows.some(StoreKind.JoinedRight, marks, 1, row => versions(marks.time(row)))
  }

  /** Tells the store which rows are gone, and keeps the index for the next batch. */
  def settle(): Unit = {
    store.settle(
      StoreKind.HeldRight,
      live => memory.numbers.get(RightMemory.key(live)).fold(live.section.rows)(sections(_).gone)
    )
    val versions = all.map(_.version).toSet
    store.settle(
      StoreKind.JoinedRight,
      live =>
        if (versions.exists(v => v >= live.section.minTime && v <= live.section.maxTime)) 0L
        else live.section.rows
    )
    store.keep(memory)
  }

  override def close(): Unit = {
    endTaking()
    unjoined.foreach(_.close())
    marks.close()
  }
}

private[sync] object HeldRight {
  private val Nothing = new Array[Byte](0)

  /** A section, and the position of the batch in it. */
  private final class Held(val live: LiveSection, val number: Int) extends AutoCloseable {
    private var cursor: RunCursor = _

    /** Rows of it that have left. */
    var gone: Long = live.section.expiredRows

    def rows: Long = live.section.rows - gone
    def version: Long = live.local.version.get

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
}
