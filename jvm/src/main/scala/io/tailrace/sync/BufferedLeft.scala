package io.tailrace.sync

import scala.collection.mutable

import io.tailrace.state._

/** The left rows of the state in one batch.
  *
  * {{{
  *   up to `through`   released, in the order of time: they leave with their sections
  *   after it          wait. With one_to_one those are looked up that new right rows reach; one leaves by a mark
  * }}}
  *
  * @param through rows up to this time are released
  * @param known   the known facts about them, including the rows evicted in this batch
  */
private[sync] final class BufferedLeft(
    store: TailraceStateStore,
    through: Long,
    known: LeftMemory,
    memory: RowMemory,
    bufferBytes: Long
) extends AutoCloseable {
  private val before = store.expiredThrough
  private val marks = new SyncMarks(StoreKind.JoinedLeft, store, memory, bufferBytes)

  // How many rows of each section leave in the batch.
  private val leave = mutable.HashMap.empty[(String, Long), Long]
  private var sought = new Array[LiveSection](0)
  private var gone = 0L

  /** Hands out the living rows of a run, and keeps the marks that are in it. The caller then drops the run.
    *
    * @param release takes the row at the cursor, which is released
    * @param keep    takes the row at the cursor, which waits
    */
  def carry(run: LocalRun, release: RunCursor => Unit, keep: RunCursor => Unit): Unit = {
    sections.filter(_.local eq run).foreach { live =>
      foreachRow(live, before, Long.MaxValue) { cursor =>
        if (cursor.time <= through) {
          release(cursor)
          gone += 1
        } else keep(cursor)
      }
    }
    marks.carry(run)
  }

  /** Hands out all rows that are released. */
  def release(row: RunCursor => Unit): Unit =
    sections.filter(_.section.minTime <= through).foreach { live =>
      var count = 0L
      foreachRow(live, before, through) { cursor =>
        row(cursor)
        count += 1
      }
      left(live, count)
    }

  /** Hands out rows that wait and may have one of the new right rows, each with the number of its section. They
    * stay, but those that the caller takes.
    */
  def seek(rights: NewKeys)(row: (RunCursor, Int) => Unit): Unit = if (!rights.isEmpty) {
    val from = Math.max(rights.reachesFrom, through + 1)
    val to = rights.reachesThrough
    sought = sections.filter { live =>
      live.section.maxTime >= from && live.section.minTime <= to &&
      known.codesIn(live).forall(rights.hasOneOf)
    }.toArray
    LiveSection.prepare(sought.toSeq)
    sought.zipWithIndex.foreach { case (live, i) =>
      if (known.codesIn(live).nonEmpty || rights.hasOneOf(learn(live, rights)))
        foreachRow(live, from - 1, to) { cursor =>
          if (rights.has(rights.codeOf(cursor.base, cursor.at))) row(cursor, i)
        }
    }
  }

  /** @return the keys of all rows of a section that may ever be sought */
  private def learn(live: LiveSection, rights: NewKeys): Array[Int] = {
    val codes = Array.newBuilder[Int]
    foreachRow(live, through, Long.MaxValue)(row => codes += rights.codeOf(row.base, row.at))
    val found = codes.result()
    known.learn(live, found)
    found
  }

  /** Takes such a row: it leaves the state. */
  def take(section: Int, seq: Long): Unit = {
    val live = sought(section)
    val version = live.local.version.get
    known.gone.of(version).add(seq)
    marks.add(version, seq)
    left(live, 1)
  }

  /** A row that was carried isn't kept. */
  def takeCarried(): Unit = gone += 1

  private def left(live: LiveSection, rows: Long): Unit = {
    leave(RightMemory.key(live)) = leaving(live) + rows
    gone += rows
  }

  private def leaving(live: LiveSection): Long = leave.getOrElse(RightMemory.key(live), 0L)

  private def sections: Seq[LiveSection] = store.sectionsOf(StoreKind.HeldLeft)

  /** @param after rows up to this time are left out, and those that have left
    * @param last  of the times
    */
  private def foreachRow(live: LiveSection, after: Long, last: Long)(body: RunCursor => Unit): Unit = {
    val rows = new LivingRows.InStore(after, () => known.gone.in(live.local.version.get)).cursor(live)
    try
      while (rows.isValid && rows.row.time <= last) {
        body(rows.row)
        rows.next()
      }
    finally rows.close()
  }

  private def stays(live: LiveSection): Boolean =
    live.section.maxTime > through && live.section.liveRows > leaving(live)

  /** The marks whose sections are still there, sorted, to be written with the batch's run. */
  def marksLeft: SortedRows = marks.of(versionsOf(sections.filter(stays)))

  private def versionsOf(left: Seq[LiveSection]): Set[Long] = left.map(_.local.version.get).toSet

  /** Notifies the store of the evicted rows. @return their number */
  def settle(): Long = {
    store.markExpired(StoreKind.HeldLeft, through, leaving)
    store.dropThrough(StoreKind.HeldLeft, through): Unit
    store.settle(StoreKind.HeldLeft, _.section.expiredRows)
    marks.settle(versionsOf(sections))
    known.settle(sections)
    gone
  }

  override def close(): Unit = marks.close()
}
