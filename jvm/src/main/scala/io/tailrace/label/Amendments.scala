package io.tailrace.label

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.expressions.{Literal, UnsafeProjection, UnsafeRow}

import io.tailrace.join.{JoinColumns, StoredJoinContext}
import io.tailrace.state._

/** Keeps emitted left rows that may still be amended, by key, with their key columns and their time. Their right rows stay
  * in the state as long as they do.
  *
  * {{{
  *   after = 30 min, amend_for = 2 h      12:00 was emitted with [12:04]; the watermark is 13:10
  *
  *   a right row of 12:20 comes           noted: 12:00 is the newest that was emitted
  *   noted x left-out                     12:00 is found, once
  *   12:00 x right rows                   [12:04, 12:20], and [12:04] without this batch: it is emitted again, amended
  *   watermark 14:30                      12:00 is evicted
  * }}}
  *
  * The group that a row was emitted with is kept nowhere, and found again: it has what the row matches without the rows of
  * this batch, because those of earlier batches have amended it.
  *
  * A row is amended by what comes until the watermark has reached the end of its window and `amend_for`.
  */
private[label] final class Amendments(
    context: StoredJoinContext,
    settings: JoinSettings,
    times: LabelJoinTimes
) extends AutoCloseable {
  import context.{bufferBytes, columns, memory, store}
  import settings.window

  /** Rows that have been emitted before are here, in whatever partition that was. */
  private val earlier = store.sectionsOf(StoreKind.LeftOut)

  // The newest of them: behind the watermark by the window, or further ahead, where idleness has flushed it.
  private val newest = earlier.map(_.section.maxTime).maxOption

  private val complete: Long = {
    // If the window is longer from this batch on, what has been emitted before had the shorter one.
    val known = store.amendsAfter.filter(_ => times.earlier.isEmpty && !times.keepsMore)
    // An idle query may have flushed rows ahead of those that have expired.
    val lacking = newest.filter(_ => times.keepsMore)
    (store.amendsAfter ++ Option.when(known.isEmpty)(store.expiredThrough) ++ lacking).max
  }

  /** Left rows after this time may be amended by rows of this batch. */
  val after: Long = Math.max(complete, JoinWindow.behind(times.lateWatermark, settings.takesFor))

  /** And by rows of the next one. */
  val afterNext: Long = Math.max(complete, JoinWindow.behind(times.watermark, settings.takesFor))

  private val notedKeys = new FlushingRows(memory, bufferBytes, () => flushNoted(), () => makeRoom())
  private val noted = new ArrayBuffer[ScratchRun]
  private val foundRows = new FlushingRows(memory, bufferBytes, () => flushFound(), () => makeRoom())
  private val found = new ArrayBuffer[ScratchRun]
  private val keptRows = new FlushingRows(memory, bufferBytes, () => flushKept(), () => makeRoom())
  private lazy val kept = Amendments.keptColumns(columns)
  private var count = 0L

  /** A right row that was taken: notes it if by its time it may be of a left row that has been emitted. */
  def note(key: Array[Byte], keyLength: Int, time: Long): Unit =
    if (newest.exists(_ >= window.earliestLeft(time)) && window.latestLeft(time) > after) {
      // Pages of a run begin with different rows, so no two rows may be the same.
      notedKeys.append(key, keyLength, time, count, Amendments.NoValue, 0L, 0)
      count += 1
    }

  /** True if a row of this batch was noted. */
  def hasNoted: Boolean = count > 0

  /** Writes out what is in memory, and gives that memory back. @return whether there was any */
  def makeRoom(): Boolean = Seq(notedKeys, foundRows, keptRows).exists(!_.rows.isEmpty) && {
    flushNoted()
    flushFound()
    flushKept()
    Seq(notedKeys, foundRows, keptRows).foreach(_.rows.release())
    true
  }

  /** Writes out what was noted. */
  def flushNoted(): Unit = {
    val rows = notedKeys.rows
    if (!rows.isEmpty) noted += store.scratch(SortedRows.keys(ScratchKind.ByKey, rows, Long.MaxValue))
    rows.clear()
  }

  /** Keeps what is needed of a left row that is emitted, to amend it.
    *
    * @param left the row as a whole
    */
  def keep(rows: RowBuffer, row: Int, left: UnsafeRow): Unit = {
    val length = rows.keyLength(row)
    val time = rows.time(row)
    if (length > 0 && time > afterNext)
      keptRows
        .append(RowLayout.keyBytes(rows.base(row), rows.at(row)), length, time, store.newSeq(), kept(left))
  }

  /** Keeps a left row of an import, which has no other columns than these. */
  def keepEmitted(key: Array[Byte], keyLength: Int, time: Long, left: UnsafeRow): Unit =
    keptRows.append(key, keyLength, time, store.newSeq(), left)

  def flushKept(): Unit = {
    store.addRun(times.bucketWidth, StoreKind.LeftOut -> keptRows.rows): Unit
    keptRows.rows.clear()
  }

  /** The left rows that what was noted may amend, by key, each once. */
  def lefts(): AmendedLefts = {
    flushNoted()
    notedKeys.rows.release()
    if (noted.nonEmpty) find()
    flushFound()
    foundRows.rows.release()
    new AmendedLefts(found.toSeq)
  }

  private def find(): Unit = {
    val sections = noted.flatMap(_.sections).toSeq
    val matches = new ArrivalMatches(sections, earlier, -window.after, window.before, context)
    try
      while (matches.next()) {
        import matches.{candidate, candidates, chunk, probe}
        val time = candidates.time(candidate)
        if (time > after) {
          val key = RowLayout.keyBytes(chunk.base(probe), chunk.at(probe))
          foundRows.append(
            key,
            key.length,
            time,
            candidates.seq(candidate),
            candidates.base(candidate),
            candidates.valueOffset(candidate),
            candidates.valueLength(candidate)
          )
        }
      }
    finally matches.close()
  }

  private def flushFound(): Unit = {
    val rows = foundRows.rows
    if (!rows.isEmpty) {
      val sorted = RowSort.byKeyTimeAndSeq(rows)
      val once = sorted.indices.filter(i => i == 0 || rows.seq(sorted(i)) != rows.seq(sorted(i - 1)))
      val order = once.map(sorted(_)).toArray
      found += store.scratch(SortedRows.ofSorted(AmendedLefts.Kind, rows, order, Long.MaxValue))
    }
    rows.clear()
  }

  /** Removes what can't be amended any more. @return how many rows */
  def expire(): Long = store.dropThrough(StoreKind.LeftOut, afterNext)

  /** All buffered left rows after `through`, and all that may be amended, are after this time. */
  def neededAfter(through: Long): Long = Math.min(through, afterNext)

  override def close(): Unit = {
    Seq(notedKeys, foundRows, keptRows).foreach(_.rows.close())
    (noted ++ found).foreach(_.close())
    noted.clear()
    found.clear()
  }
}

private[label] object Amendments {
  private val NoValue = new Array[Byte](0)

  /** A row of the left columns, null but for those that an amended row has. */
  private def keptColumns(columns: JoinColumns): UnsafeProjection = {
    val wanted = (columns.leftKeys ++ columns.kept :+ columns.leftTime).map(_.exprId).toSet
    UnsafeProjection.create(
      columns.left.map(a => if (wanted(a.exprId)) a else Literal(null, a.dataType)),
      columns.left
    )
  }

  /** Evicts the kept rows of a join that no longer amends. @return how many */
  def forget(store: TailraceStateStore): Long = {
    val newest = store.sectionsOf(StoreKind.LeftOut).map(_.section.maxTime).maxOption
    newest.fold(0L)(store.dropThrough(StoreKind.LeftOut, _))
  }
}

/** Left rows by key, time and number, each once, out of local files. */
private[label] final class AmendedLefts(runs: Seq[ScratchRun]) extends AutoCloseable {
  private val rows =
    new MergedSections(runs.flatMap(_.sections), RunCursor.inOrder(AmendedLefts.Kind.order), Long.MinValue)
  private var last = -1L

  /** Fills an empty chunk. @return the numbers of its rows, by key and time */
  def fill(chunk: RowBuffer, share: MemoryShare): Array[Int] = {
    var full = false
    while (!rows.isEmpty && !full) {
      val head = rows.head
      if (head.seq == last) rows.drop()
      else {
        full = !chunk.appendIfRoom(head.base, head.at)
        if (!full) {
          last = head.seq
          rows.drop()
          full = share.isFull(chunk.bytes)
        }
      }
    }
    Array.range(0, chunk.size)
  }

  override def close(): Unit = rows.close()
}

private object AmendedLefts {
  val Kind = ScratchKind.ByKeyTimeAndSeq
}
