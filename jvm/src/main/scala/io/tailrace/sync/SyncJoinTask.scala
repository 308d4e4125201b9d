package io.tailrace.sync

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.metric.SQLMetric

import io.tailrace.join.{JoinColumns, StoredJoinTask}
import io.tailrace.state.{
  RowBuffer,
  RowLayout,
  RowMemory,
  RunCursor,
  SortedRows,
  StoreKind,
  TailraceStateStore
}

/** What a task of a synced join works with in one micro-batch.
  *
  * @param times       what the batch is judged by
  * @param bufferBytes see `spark.tailrace.state.batchBufferBytes`
  * @param joinedThrough rows beyond this time come out as they are read, marked
  */
private[sync] final case class SyncTaskContext(
    columns: JoinColumns,
    settings: SyncSettings,
    store: TailraceStateStore,
    memory: RowMemory,
    times: SyncTimes,
    bufferBytes: Long,
    metric: String => SQLMetric,
    joinedThrough: Long = Long.MaxValue,
    hash: KeyHash = KeyHash.XX64,
    layout: SyncLayout = SyncLayout()
)

/** How the rows of a partition are laid out in files.
  *
  * @param bucketWidth   of a section, in microseconds, at the least: what is read together mostly leaves together, within
  *                      about as long
  * @param rowsPerBucket on average: a section of fewer rows costs more to open than to read
  * @param mostRuns      files of a partition's state
  */
private[sync] final case class SyncLayout(
    bucketWidth: Long = 1000L * 1000,
    rowsPerBucket: Int = 2048,
    mostRuns: Int = 64
)

/** What one task of a synced join does with one micro-batch, up to the commit, which is its caller's.
  *
  * {{{
  *   left input ──┬ before the release time ─────────────┐
  *                └ after it ──> held-left               │
  *   held-left ──── before the release time ─────────────┴──> sorted by key ──┐
  *                                                                            ├──> (left row, its right row or nulls)
  *   right input ──────────────────────────────────────> sorted by key ───────┤
  *   held-right ─── the sections that the index names ────────────────────────┘
  *
  *   then right rows that the left side has passed expire, and what is left is written: one run a batch
  * }}}
  *
  * With sync_delay = 5 seconds and a slowest right partition that has been read up to 12:00:30, left rows before
  * 12:00:25 are released; each takes its right row with it, whenever that came.
  */
private[sync] final class SyncJoinTask(context: SyncTaskContext) extends StoredJoinTask {
  import context._

  private val expiredBefore = store.operatorTime
  private val through = Math.max(store.expiredThrough, SyncRules.releasedThrough(times))
  private val expiry = Math.max(expiredBefore, SyncRules.rightExpiry(times, settings))

  private lazy val writer = new SyncWriter(columns, settings)
  private val released = new ReleasedRows(store, memory, bufferBytes, () => input.makeRoom())
  private val input: SyncInput =
    new SyncInput(
      columns,
      store,
      memory,
      through,
      joinedThrough,
      released,
      writer,
      bufferBytes,
      metric,
      () => flush()
    )
  private val heldLeft = new HeldLeft(store, through)
  private val heldRight = new HeldRight(store, hash, memory, bufferBytes)
  private val found =
    new FoundRows(store, memory, keepsAll = settings.duplicates == Duplicates.Divert, bufferBytes)
  private val spare = new SpareRight(memory, bufferBytes)

  private var newRight: NewRight = _
  private var expiring: Option[ExpiringRight] = None
  private var kept = 0L
  private var carried = 0L
  private var sorting = 0L
  private var writing = 0L

  override def output(left: Iterator[InternalRow], right: Iterator[InternalRow]): Iterator[InternalRow] =
    Iterator.empty[InternalRow] ++ { carry(); input.readLeft(left) } ++ input.readRight(right) ++ {
      begin()
      new Decided
    } ++ unjoined

  override def rowsKept: Long = kept
  override def updateNanos: Long = input.readNanos + writing
  override def expiryNanos: Long = sorting

  /** Has what is left of some runs written again with this batch. */
  private def carry(): Unit = {
    val chosen = CarriedRuns.choose(shares, layout.mostRuns)
    if (chosen.nonEmpty) {
      val runs = StoreKind.all.flatMap(store.sectionsOf(_)).map(_.local).distinct.filter(r => chosen(r.name))
      runs.foreach { run =>
        heldLeft.carry(run, releaseRow, row => carryRow(input.left, row))
        heldRight.carry(run, row => carryRow(input.right, row))
        store.dropRun(run)
      }
    }
  }

  private def releaseRow(row: RunCursor): Unit = released.append(row.base, row.at)

  private def carryRow(to: RowBuffer, row: RunCursor): Unit = {
    input.carry(to, row.base, row.at)
    carried += 1
  }

  private def shares: Seq[CarriedRuns.Share] =
    StoreKind.all.flatMap(store.sectionsOf(_)).groupBy(_.local.name).toSeq.map { case (name, all) =>
      val (rows, marks) = all.map(_.section).partition(_.kind.hasRows)
      CarriedRuns.Share(name, rows.map(_.rows).sum, rows.map(_.liveRows).sum, marks.map(_.rows).sum)
    }

  /** Writes rows into the state before all are read. */
  private def flush(): Unit = {
    write(SortedRows.all(StoreKind.HeldRight, input.right, layout.bucketWidth, layout.rowsPerBucket), Nil)
    input.left.clear()
    input.right.clear()
  }

  private def write(right: SortedRows, more: Seq[SortedRows]): Unit = {
    val left = SortedRows.all(StoreKind.HeldLeft, input.left, layout.bucketWidth, layout.rowsPerBucket)
    kept += left.order.length + right.order.length
    heldRight.add(right, store.addSorted(Seq(left, right) ++ more))
  }

  /** All is read: gathers the left rows that are decided now. */
  private def begin(): Unit = {
    val started = System.nanoTime
    heldLeft.release(releaseRow)
    leaveRoom()
    released.start()
    newRight = new NewRight(input.right)
    sorting = System.nanoTime - started
  }

  /** What is in memory stays there until the left rows are decided, which needs memory, too. */
  private def leaveRoom(): Unit = {
    val held = input.bytes
    if (held > SyncJoinTask.AlwaysHeld && memory.available(held) < held) input.makeRoom(): Unit
  }

  /** The left rows that are released, each with what becomes of it. */
  private final class Decided extends Iterator[UnsafeRow] {
    private val range = new JoinRange(settings)
    private val leftRow = new UnsafeRow(columns.left.size)
    private val rightRow = new UnsafeRow(columns.payload.size)
    private var out: UnsafeRow = _
    private var more = true
    // Of the rows that were found, others are still to be diverted.
    private var diverting = false
    private var matched = 0L
    private var unmatched = 0L
    private var duplicateLeft = 0L
    private var duplicateRight = 0L
    private var tooFar = 0L

    override def hasNext: Boolean = {
      if (out == null && more) advance()
      out != null
    }

    override def next(): UnsafeRow = {
      if (!hasNext) throw new NoSuchElementException("no more left rows")
      val row = out
      out = null
      row
    }

    private def advance(): Unit = {
      while (out == null && more) {
        if (diverting) divert()
        else if (released.next()) decide()
        else end()
      }
    }

    private def decide(): Unit = {
      val (base, at) = (released.base, released.at)
      leftRow.pointTo(base, RowLayout.valueAt(base, at), RowLayout.valueLength(base, at))
      find(base, at)
      if (found.count > 0) {
        matched += 1
        duplicateRight += found.count - 1
        out = writer.joined(leftRow, pointTo(rightRow, found.joinedBase, found.joinedAt))
      } else if (released.isFirst) {
        unmatched += 1
        if (spare.hasSeen) tooFar += 1
        out = writer.leftAlone(leftRow, duplicate = false)
      } else {
        duplicateLeft += 1
        if (settings.duplicates != Duplicates.Drop)
          out = writer.leftAlone(leftRow, duplicate = settings.duplicates == Duplicates.Divert)
      }
      diverting = settings.duplicates == Duplicates.Divert && found.count > 1
    }

    /** The right rows that the left row joins. Those of its key are read once, for the first left row of the key. */
    private def find(base: AnyRef, at: Long): Unit = {
      range.around(RowLayout.time(base, at))
      found.clear()
      if (released.isFirst) {
        spare.clear()
        newRight.take(released.keyPrefix, base, at, range, found, spare)
        heldRight.take(base, at, range, found, spare)
      } else if (spare.isOverflown) {
        newRight.takeAgain(range, found)
        heldRight.takeAgain(base, at, range, found)
      } else if (!spare.isEmpty) spare.take(range, found, newRight, heldRight)
    }

    private def divert(): Unit = {
      diverting = found.nextOther()
      if (diverting) out = rightAlone(found.otherBase, found.otherAt, rightRow, duplicate = true)
    }

    private def end(): Unit = {
      more = false
      heldRight.endTaking()
      metric(SyncMetrics.Matched) += matched
      metric(SyncMetrics.UnmatchedLeft) += unmatched
      metric(SyncMetrics.DuplicateLeft) += duplicateLeft
      metric(SyncMetrics.DuplicateRight) += duplicateRight
      metric(SyncMetrics.TooFar) += tooFar
    }
  }

  private def pointTo(row: UnsafeRow, base: AnyRef, at: Long): UnsafeRow = {
    row.pointTo(base, RowLayout.valueAt(base, at), RowLayout.valueLength(base, at))
    row
  }

  private def rightAlone(base: AnyRef, at: Long, row: UnsafeRow, duplicate: Boolean): UnsafeRow =
    writer.rightAlone(base, at, pointTo(row, base, at), duplicate)

  /** Of the right rows in memory, those that nobody has joined and that expire. When the left rows are decided. */
  private lazy val expiredInMemory = newRight.rest(expiry, after = false)

  /** The right rows that nobody has joined, where they come out. */
  private def unjoined: Iterator[UnsafeRow] =
    if (!settings.emitUnmatchedRight) Iterator.empty
    else {
      val row = new UnsafeRow(columns.payload.size)
      lazy val old = {
        val rows = heldRight.expiring(expiry)
        expiring = Some(rows)
        rows
      }
      Iterator.empty[UnsafeRow] ++
        expiredInMemory.iterator.map { i =>
          rightAlone(input.right.base(i), input.right.at(i), row, duplicate = false)
        } ++
        Iterator.continually(old.next()).takeWhile(identity).map { _ =>
          rightAlone(old.cursor.base, old.cursor.at, row, duplicate = false)
        }
    }

  /** Removes what has expired, and writes what is left of the batch. */
  override def expire(): Long = {
    expiring.foreach(_.close())
    val old = heldRight.expire(expiry)
    metric(SyncMetrics.UnmatchedRight) += old + expiredInMemory.length
    val started = System.nanoTime
    val rest = newRight.rest(expiry, after = true)
    val right =
      SortedRows.ofSorted(StoreKind.HeldRight, input.right, rest, layout.bucketWidth, layout.rowsPerBucket)
    write(right, Seq(heldRight.marksLeft))
    writing += System.nanoTime - started
    store.setOperatorTime(expiry)
    heldRight.settle()
    metric(SyncMetrics.CarriedRows) += carried
    metric(SyncMetrics.IndexBytes) += heldRight.indexBytes
    metric(SyncMetrics.IndexesRead) += (if (heldRight.wasRead) 1 else 0)
    heldLeft.settle() + heldRight.rowsGone
  }

  override def close(): Unit = {
    expiring.foreach(_.close())
    heldRight.close()
    released.close()
    found.close()
    spare.close()
    input.close()
  }
}

private[sync] object SyncJoinTask {

  /** So many bytes are held whatever is left for others. */
  private val AlwaysHeld = 1L << 20
}
