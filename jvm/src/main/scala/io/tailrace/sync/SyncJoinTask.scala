package io.tailrace.sync

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import io.tailrace.join.{StoredJoinContext, StoredJoinTask}
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
  * before 12:00:25 are released. Each comes out with its right row, whenever that came. With `exactly_one` a left row
  * that isn't released is emitted too, if its right row is there ([[EarlyLeft]]).
  *
  * @param times         the times that the micro-batch is judged by
  * @param joinedThrough rows after this time are emitted as they are read, marked
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

  private val known: Option[SyncMemory] = store.takeKept().collect { case found: SyncMemory => found }
  private val knowledge = known.getOrElse(SyncMemory.read(store, hash, keptMemory))

  private lazy val writer = new SyncWriter(columns, settings)
  private val released = new OrderedRows(store, memory, bufferBytes, () => input.makeRoom())
  private val newKeys = Option.when(settings.exactlyOne)(new NewKeys(settings, hash))
  private val input: SyncInput =
    new SyncInput(context, through, joinedThrough, released, writer, newKeys, () => flush())
  private val heldLeft = new HeldLeft(store, through, knowledge.left, memory, bufferBytes)
  private val early = Option.when(settings.exactlyOne)(
    new EarlyLeft(store, through, heldLeft, released, input.carry(input.left, _, _))
  )
  private val reach =
    if (settings.exactlyOne) Long.MaxValue else SyncRules.joinsThrough(through, settings)
  private val heldRight = new HeldRight(store, hash, memory, bufferBytes, reach, knowledge.right)
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
      heldLeft.carry(run, release, row => carryLeft(row))
      heldRight.carry(run, row => carry(input.right, row))
      store.dropRun(run)
    }
    Iterator.empty
  }

  private def carry(to: RowBuffer, row: RunCursor): Unit = {
    input.carry(to, row.base, row.at)
    carried += 1
  }

  private def carryLeft(row: RunCursor): Unit = early match {
    case Some(rows) =>
      rows.add(row, EarlyLeft.Carried)
      carried += 1
    case None => carry(input.left, row)
  }

  private def release(row: RunCursor): Unit = released.append(row.base, row.at)

  /** Phase 4, when both inputs are read: gives the left rows that are released. */
  private def decide(): Iterator[UnsafeRow] = {
    val started = System.nanoTime
    heldLeft.release(release)
    for (rows <- early; keys <- newKeys) heldLeft.seek(keys)(rows.add)
    leaveRoom()
    input.endReading()
    released.start()
    newRight.start()
    heldRight.start()
    sorting = System.nanoTime - started
    new DecidedRows(columns, settings, released, right, early, writer, metric)
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
      Seq(heldRight.marksLeft, heldLeft.marksLeft)
    )
    writing += System.nanoTime - started
    store.setOperatorTime(expiry)
    heldRight.settle()
    val leftGone = heldLeft.settle()
    store.keep(knowledge)
    metric(SyncMetrics.CarriedRows) += carried
    metric(SyncMetrics.IndexBytes) += knowledge.bytes
    metric(SyncMetrics.IndexesRead) += (if (known.isEmpty) 1 else 0)
    leftGone + heldRight.rowsGone
  }

  /** Writes rows into the state before the end of the batch: right rows only until the first row is decided. */
  private def flush(): Unit = {
    val right = if (input.isRead) new RowBuffer(memory) else input.right
    write(SortedRows.all(StoreKind.HeldRight, right, layout.bucketWidth, rightRowsPerBucket), Nil)
    input.left.clear()
    right.clear()
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
    heldLeft.close()
    released.close()
    input.close()
  }
}

private[sync] object SyncJoinTask {

  /** A task holds so many bytes of rows, however little memory is left for others. */
  private val AlwaysHeld = 1L << 20
}
