package io.tailrace.sync

import java.util.Arrays

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import io.tailrace.join.{JoinInput, JoinMetrics, StoredJoinContext, StoredJoinTask}
import io.tailrace.state.{KeptMemory, OrderedRows, RowBuffer, RunCursor, SortedRows, StoreKind}

/** The layout of a partition's rows in files.
  *
  * @param bucketWidth   of a section, in microseconds, at least: rows that are read together mostly leave
  *                      together, within about this time
  * @param rowsPerBucket on average: to open a section of fewer rows costs more than to read it
  * @param mostRuns      files of a partition's state
  * @param mostSections  of right rows, beside one in each run. A task has a buffer for each of them that has
  *                      rows of its keys
  */
private[sync] final case class SyncLayout(
    bucketWidth: Long = 1000L * 1000,
    rowsPerBucket: Int = 2048,
    mostRuns: Int = 64,
    mostSections: Int = 256
)

/** A synced join of one state partition in one micro-batch, up to the commit, which the caller does.
  *
  * {{{
  *   left input ──┬ before the release time ─────────────┐
  *                └ after it ──> held-left               │
  *   held-left ──── before the release time ─────────────┴──> sorted by key ──┐
  *                                                                            ├──> (left, right or nulls)
  *   right input ──────────────────────────────────────> sorted by key ───────┤
  *   held-right ─── the sections that the index names ────────────────────────┘
  *
  *   then right rows that the left side has passed expire, and the rest is written: one run a batch
  * }}}
  *
  * With sync_delay = 5 seconds and a slowest right partition that has been read up to 12:00:30, left rows
  * before 12:00:25 are released. Each comes out with its right row, whenever that came.
  *
  * @param times         the times that the micro-batch is judged by
  * @param joinedThrough rows after this time come out as they are read, marked
  * @param keptMemory    where the index of right rows is until the next batch
  */
private[sync] final class SyncJoinTask(
    context: StoredJoinContext,
    settings: SyncSettings,
    times: SyncTimes,
    joinedThrough: Long = Long.MaxValue,
    hash: KeyHash = KeyHash.XX64,
    layout: SyncLayout = SyncLayout(),
    keptMemory: KeptMemory = KeptMemory.ofExecutor
) extends StoredJoinTask {
  import context._

  private val through = Math.max(store.expiredThrough, SyncRules.releasedThrough(times))
  private val expiry = Math.max(store.operatorTime, SyncRules.rightExpiry(times, settings))

  private lazy val writer = new SyncWriter(columns, settings)
  private val released = new OrderedRows(store, memory, bufferBytes, () => input.makeRoom())
  private val input: SyncInput =
    new SyncInput(context, through, joinedThrough, released, writer, () => flush())
  private val heldLeft = new HeldLeft(store, through)
  private val heldRight =
    new HeldRight(store, hash, memory, bufferBytes, SyncRules.joinsThrough(through, settings), keptMemory)
  private val newRight = new NewRight(input.right)
  private val right = new RightRows(
    settings,
    newRight,
    heldRight,
    new FoundRows(store, memory, keepsAll = settings.marksDuplicates, bufferBytes),
    new SpareRight(memory, bufferBytes)
  )

  private var kept = 0L
  private var carried = 0L
  private var sorting = 0L
  private var writing = 0L

  override protected def phases(
      leftRows: Iterator[InternalRow],
      rightRows: Iterator[InternalRow]
  ): Seq[() => Iterator[InternalRow]] =
    Seq(
      () => carryForward(),
      () => input.readLeft(leftRows),
      () => input.readRight(rightRows),
      () => decide(),
      () => unjoinedInMemory(),
      () => unjoinedInState()
    )

  override def rowsKept: Long = kept
  override def updateNanos: Long = input.readNanos + writing
  override def expiryNanos: Long = sorting

  /** Phase 1: takes the rows that are left in some runs, to write them again with this batch. */
  private def carryForward(): Iterator[UnsafeRow] = {
    val sections = StoreKind.all.flatMap(store.sectionsOf(_))
    val chosen = CarriedRuns.choose(CarriedRuns.shares(sections), layout.mostRuns)
    sections.map(_.local).distinct.filter(run => chosen(run.name)).foreach { run =>
      heldLeft.carry(run, release, row => carry(input.left, row))
      heldRight.carry(run, row => carry(input.right, row))
      store.dropRun(run)
    }
    Iterator.empty
  }

  private def carry(to: RowBuffer, row: RunCursor): Unit = {
    input.carry(to, row.base, row.at)
    carried += 1
  }

  private def release(row: RunCursor): Unit = released.append(row.base, row.at)

  /** Phase 4, when both inputs are read: gives the left rows that are released. */
  private def decide(): Iterator[UnsafeRow] = {
    val started = System.nanoTime
    heldLeft.release(release)
    leaveRoom()
    released.start()
    newRight.start()
    heldRight.start()
    sorting = System.nanoTime - started
    new DecidedRows(columns, settings, released, right, writer, metric)
  }

  /** Rows that are in memory stay there until the left rows are decided, which needs memory too. */
  private def leaveRoom(): Unit = {
    val held = input.bytes
    if (held > SyncJoinTask.AlwaysHeld && memory.available(held) < held) input.makeRoom(): Unit
  }

  /** Phases 5 and 6: give the right rows that expire unjoined, if the user wants them. */
  private def unjoinedInMemory(): Iterator[UnsafeRow] =
    if (!settings.emitsUnmatchedRight) Iterator.empty
    else
      newRight.rest(expiry, after = false).iterator.map { row =>
        writer.rightAlone(input.right.base(row), input.right.at(row), duplicate = false)
      }

  private def unjoinedInState(): Iterator[UnsafeRow] =
    if (!settings.emitsUnmatchedRight) Iterator.empty
    else heldRight.expiring(expiry).map(row => writer.rightAlone(row.base, row.at, duplicate = false))

  /** Removes the right rows that have expired, and writes the rows that stay. */
  override def expire(): Long = {
    val inState = heldRight.expire(expiry)
    metric(SyncMetrics.UnmatchedRight) += inState + newRight.rest(expiry, after = false).length
    val started = System.nanoTime
    val rest = newRight.rest(expiry, after = true)
    write(
      SortedRows.ofSorted(StoreKind.HeldRight, input.right, rest, layout.bucketWidth, rightRowsPerBucket),
      Seq(heldRight.marksLeft)
    )
    writing += System.nanoTime - started
    store.setOperatorTime(expiry)
    heldRight.settle()
    metric(SyncMetrics.CarriedRows) += carried
    metric(SyncMetrics.IndexBytes) += heldRight.indexBytes
    metric(SyncMetrics.IndexesRead) += (if (heldRight.wasRead) 1 else 0)
    heldLeft.settle() + heldRight.rowsGone
  }

  /** Writes rows into the state before both inputs are read. */
  private def flush(): Unit = {
    write(SortedRows.all(StoreKind.HeldRight, input.right, layout.bucketWidth, rightRowsPerBucket), Nil)
    input.left.clear()
    input.right.clear()
  }

  private def rightRowsPerBucket: Int = {
    val held = store.sectionsOf(StoreKind.HeldRight).map(_.section.rows).sum + input.right.size
    Math.max(layout.rowsPerBucket.toLong, held / layout.mostSections).toInt
  }

  private def write(rightRows: SortedRows, more: Seq[SortedRows]): Unit = {
    val leftRows = SortedRows.all(StoreKind.HeldLeft, input.left, layout.bucketWidth, layout.rowsPerBucket)
    kept += leftRows.order.length + rightRows.order.length
    heldRight.add(rightRows, store.addSorted(Seq(leftRows, rightRows) ++ more))
  }

  override def close(): Unit = {
    right.close()
    released.close()
    input.close()
  }
}

private[sync] object SyncJoinTask {

  /** A task holds so many bytes of rows, however little memory is left for others. */
  private val AlwaysHeld = 1L << 20
}

/** Reads the inputs of a synced join. A left row is released at once, or waits; a right row waits. Left rows
  * without a key or a time come out at once: nothing can match them.
  *
  * @param through left rows up to this time are released
  * @param joined  rows up to this time are joined; those beyond come out at once, marked
  */
private[sync] final class SyncInput(
    context: StoredJoinContext,
    through: Long,
    joined: Long,
    released: OrderedRows,
    writer: => SyncWriter,
    flush: () => Unit
) extends JoinInput(context, flush) {
  import context.{columns, metric, store}

  override def readLeft(rows: Iterator[InternalRow]): Iterator[UnsafeRow] = new Reading(rows, columns.left) {
    private val keys = columns.leftKeyEncoder()
    private val timeOrdinal = columns.leftTimeOrdinal
    // Left rows up to this time had been released when the batch before ended.
    private val before = store.expiredThrough
    private var alone = 0L
    private var late = 0L
    private var future = 0L

    override protected def receive(row: UnsafeRow): UnsafeRow = {
      val keyLength = keys.encode(row)
      if (keyLength == 0 || row.isNullAt(timeOrdinal)) {
        alone += 1
        writer.leftAlone(row, duplicate = false)
      } else {
        val time = row.getLong(timeOrdinal)
        if (time > joined) {
          future += 1
          writer.futureLeft(row)
        } else {
          if (time <= through) {
            if (time <= before && before != Long.MinValue) late += 1
            released.append(keys.bytes, keyLength, time, store.newSeq(), row)
          } else keep(lefts, keys.bytes, keyLength, time, row)
          null
        }
      }
    }

    override protected def report(): Unit = {
      metric(SyncMetrics.UnmatchedLeft) += alone
      metric(SyncMetrics.LateLeft) += late
      metric(SyncMetrics.FutureLeft) += future
    }
  }

  override def readRight(rows: Iterator[InternalRow]): Iterator[UnsafeRow] =
    new Reading(rows, columns.right) {
      private val keys = columns.rightKeyEncoder()
      private val timeOrdinal = columns.rightTimeOrdinal
      private val payload = columns.payloadProjection()
      private var nullRows = 0L
      private var future = 0L

      override protected def receive(row: UnsafeRow): UnsafeRow = {
        val keyLength = keys.encode(row)
        if (keyLength == 0 || row.isNullAt(timeOrdinal)) {
          nullRows += 1
          null
        } else if (row.getLong(timeOrdinal) > joined) {
          future += 1
          writer.futureRight(Arrays.copyOf(keys.bytes, keyLength), payload(row))
        } else {
          keep(rights, keys.bytes, keyLength, row.getLong(timeOrdinal), payload(row))
          null
        }
      }

      override protected def report(): Unit = {
        metric(JoinMetrics.NullKeyRightRows) += nullRows
        metric(SyncMetrics.FutureRight) += future
      }
    }

  /** Keeps a row of the state, to write it again.
    *
    * @param base see [[io.tailrace.state.RowLayout]]
    */
  def carry(buffer: RowBuffer, base: AnyRef, at: Long): Unit =
    (if (buffer eq left) lefts else rights).appendRow(base, at)

  /** Bytes of the rows that are in memory. */
  def bytes: Long = left.bytes + right.bytes + released.bytes

  override def makeRoom(): Boolean = bytes > 0 && {
    released.release()
    flush()
    release()
    true
  }
}
