package io.tailrace.sync

import java.util.Arrays

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.unsafe.Platform

import io.tailrace.join._
import io.tailrace.state._

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
  * before 12:00:25 are released. Each is emitted with its right row, whenever that arrived. With `one_to_one` a
  * left row that isn't released is emitted too, if its right row is there ([[EarlyLeft]]).
  *
  * @param times         the times that the micro-batch is judged by
  * @param joinedThrough rows after this time are emitted as they are read, marked
  * @param byProgress    left rows up to this time are released without `idle_timeout`, too
  * @param keptMemory    where the index of right rows is until the next batch
  */
private[sync] final class SyncJoinTask(
    context: StoredJoinContext,
    settings: SyncSettings,
    times: SyncTimes,
    joinedThrough: Long = Long.MaxValue,
    byProgress: Long = Long.MaxValue,
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
  private val reach =
    if (settings.oneToOne) Long.MaxValue else SyncRules.joinsThrough(through, settings)
  private val bufferedRight = new BufferedRight(store, hash, memory, bufferBytes, reach, knowledge.right)
  private val bufferedLeft = new BufferedLeft(store, through, knowledge.left, memory, bufferBytes)
  private val run = new BatchRun(store, bufferedRight, layout)
  private val newKeys = Option.when(settings.oneToOne)(new NewKeys(settings, hash))
  private val input = new SyncInput(context, through, joinedThrough, writer, newKeys, run)
  import input.released
  private val early = Option.when(settings.oneToOne)(
    new EarlyLeft(store, through, bufferedLeft, released, input.carryLeft)
  )
  private val newRight = new NewRight(input.right)
  private val right = new RightRows(
    settings,
    newRight,
    bufferedRight,
    new FoundRows(store, memory, keepsAll = settings.marksDuplicates, bufferBytes),
    new SpareRight(memory, bufferBytes)
  )
  private val passes = new Passes

  private var carried = 0L
  private var flushed = 0L
  private var sorting = 0L
  private var writing = 0L

  override def output(
      leftRows: Iterator[InternalRow],
      rightRows: Iterator[InternalRow]
  ): Iterator[InternalRow] = passes.rows(
    Seq(
      () => Pass.withoutRows(carryForward()),
      () => input.readLeft(leftRows),
      () => input.readRight(rightRows),
      () => Pass.withoutRows(prepare()),
      () => new DecidedRows(columns, settings, released, right, early, writer, metric)
    ) ++ (if (settings.emitsUnmatchedRight) unjoined else Nil)
  )

  override def rowsKept: Long = run.rows
  override def updateNanos: Long = input.readNanos + writing
  override def expiryNanos: Long = sorting

  /** Takes the rows that are left in some runs, to write them again with this batch. */
  private def carryForward(): Unit = {
    val sections = StoreKind.all.flatMap(store.sectionsOf(_))
    val chosen = CarriedRuns.choose(CarriedRuns.shares(sections), layout.mostRuns)
    sections.map(_.local).distinct.filter(run => chosen(run.name)).foreach { run =>
      bufferedLeft.carry(run, release, row => carryLeft(row))
      bufferedRight.carry(run, row => carryRight(row))
      store.dropRun(run)
    }
  }

  private def carryRight(row: RunCursor): Unit = {
    input.carryRight(row.base, row.at)
    carried += 1
  }

  private def carryLeft(row: RunCursor): Unit = {
    early match {
      case Some(rows) => rows.add(row, EarlyLeft.Carried)
      case None => input.carryLeft(row.base, row.at)
    }
    carried += 1
  }

  private def release(row: RunCursor): Unit = {
    if (row.time > byProgress) flushed += 1
    released.append(row.base, row.at)
  }

  /** Sorts what left rows are decided by, when both inputs have been read. */
  private def prepare(): Unit = {
    val started = System.nanoTime
    bufferedLeft.release(release)
    for (rows <- early; keys <- newKeys) bufferedLeft.seek(keys)(rows.add)
    leaveRoom()
    input.endReading()
    released.start()
    newRight.start()
    bufferedRight.start()
    sorting = System.nanoTime - started
  }

  /** Rows that are in memory stay there until the left rows are decided, which needs memory too. */
  private def leaveRoom(): Unit = {
    val held = input.bytes
    if (held > SyncJoinTask.AlwaysHeld && memory.available(held) < held) input.makeRoom(): Unit
  }

  /** The right rows that expire unjoined: those in memory, then those in the state. */
  private def unjoined: Seq[() => Pass] = Seq(
    () =>
      Pass.of(newRight.rest(expiry, after = false).iterator.map { row =>
        writer.rightAlone(input.right.base(row), input.right.at(row), duplicate = false)
      }),
    () =>
      Pass.of(
        bufferedRight.expiring(expiry).map(row => writer.rightAlone(row.base, row.at, duplicate = false))
      )
  )

  /** Removes the right rows that have expired, and writes the rows that stay. */
  override def expire(): Long = {
    val inState = bufferedRight.expire(expiry)
    metric(SyncMetrics.UnmatchedRight) += inState + newRight.rest(expiry, after = false).length
    val started = System.nanoTime
    run.add(
      input.left,
      run.rightRows(input.right, newRight.rest(expiry, after = true)),
      Seq(bufferedRight.marksLeft, bufferedLeft.marksLeft)
    )
    writing += System.nanoTime - started
    store.setOperatorTime(expiry)
    bufferedRight.settle()
    val leftGone = bufferedLeft.settle()
    store.keep(knowledge)
    metric(SyncMetrics.CarriedRows) += carried
    metric(SyncMetrics.FlushedByIdleTimeout) += flushed
    metric(SyncMetrics.IndexBytes) += knowledge.bytes
    metric(SyncMetrics.IndexesRead) += (if (known.isEmpty) 1 else 0)
    leftGone + bufferedRight.rowsGone
  }

  override def close(): Unit = {
    passes.close()
    right.close()
    bufferedLeft.close()
    input.close()
  }
}

private[sync] object SyncJoinTask {

  /** The bytes of rows that a task holds at least, however little memory is left for others. */
  private val AlwaysHeld = 1L << 20
}

/** Writes the rows of a batch that stay into its run. */
private[sync] final class BatchRun(
    store: TailraceStateStore,
    bufferedRight: BufferedRight,
    layout: SyncLayout
) {
  private var kept = 0L

  /** The number of rows that were written. */
  def rows: Long = kept

  /** Right rows to be written. @param sorted the numbers of those in the buffer, by key and time */
  def rightRows(right: RowBuffer, sorted: Array[Int]): SortedRows =
    SortedRows.ofSorted(StoreKind.HeldRight, right, sorted, layout.bucketWidth, rightRowsPerBucket(right))

  /** All right rows of a buffer, to be written. */
  def rightRows(right: RowBuffer): SortedRows =
    SortedRows.all(StoreKind.HeldRight, right, layout.bucketWidth, rightRowsPerBucket(right))

  private def rightRowsPerBucket(right: RowBuffer): Int = {
    val held = store.sectionsOf(StoreKind.HeldRight).map(_.section.rows).sum + right.size
    Math.max(layout.rowsPerBucket.toLong, held / layout.mostSections).toInt
  }

  /** @param more tombstones */
  def add(left: RowBuffer, rightRows: SortedRows, more: Seq[SortedRows] = Nil): Unit = {
    val leftRows = SortedRows.all(StoreKind.HeldLeft, left, layout.bucketWidth, layout.rowsPerBucket)
    kept += leftRows.order.length + rightRows.order.length
    bufferedRight.add(rightRows, store.addSorted(Seq(leftRows, rightRows) ++ more))
  }
}

/** Reads the inputs of a synced join. A left row is released at once, or buffered; a right row is buffered. Left
  * rows without a key or a time are emitted at once: nothing can match them. With `one_to_one` left rows that aren't
  * released are merged with those that are ([[EarlyLeft]]).
  *
  * @param through left rows up to this time are released
  * @param joined  rows up to this time are joined; those beyond are emitted at once, marked
  * @param newKeys gets the right rows that the batch brings, with `one_to_one`
  */
private[sync] final class SyncInput(
    context: StoredJoinContext,
    through: Long,
    joined: Long,
    writer: => SyncWriter,
    newKeys: Option[NewKeys],
    run: BatchRun
) extends AutoCloseable {
  import context.{bufferBytes, columns, memory, metric, store}

  private val input = new JoinInput(context, () => flush(), () => makeRoom())
  import input.{lefts, rights}

  /** The left rows that are decided in this batch, by key. */
  val released = new OrderedRows(store, memory, bufferBytes, () => makeRoom())
  val left: RowBuffer = input.left
  val right: RowBuffer = input.right
  private var read = false

  def readNanos: Long = input.readNanos

  def readLeft(rows: Iterator[InternalRow]): Pass = input.read(rows, columns.left, new LeftRows)
  def readRight(rows: Iterator[InternalRow]): Pass = input.read(rows, columns.right, new RightRows)

  private final class LeftRows extends RowReceiver {
    private val keys = columns.leftKeyEncoder()
    private val timeOrdinal = columns.leftTimeOrdinal
    // Left rows up to this time had been released when the batch before ended.
    private val before = store.expiredThrough
    private var alone = 0L
    private var late = 0L
    private var future = 0L

    override def receive(row: UnsafeRow): UnsafeRow = {
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
          if (time <= through || newKeys.nonEmpty) {
            if (time <= before && before != Long.MinValue) late += 1
            released.append(keys.bytes, keyLength, time, store.newSeq(), row)
          } else input.keep(lefts, keys.bytes, keyLength, time, row)
          null
        }
      }
    }

    override def report(): Unit = {
      metric(SyncMetrics.UnmatchedLeft) += alone
      metric(SyncMetrics.LateLeft) += late
      metric(SyncMetrics.FutureLeft) += future
    }
  }

  private final class RightRows extends RowReceiver {
    private val keys = columns.rightKeyEncoder()
    private val timeOrdinal = columns.rightTimeOrdinal
    private val payload = columns.payloadProjection()
    private var nullRows = 0L
    private var future = 0L

    override def receive(row: UnsafeRow): UnsafeRow = {
      val keyLength = keys.encode(row)
      if (keyLength == 0 || row.isNullAt(timeOrdinal)) {
        nullRows += 1
        null
      } else if (row.getLong(timeOrdinal) > joined) {
        future += 1
        writer.futureRight(Arrays.copyOf(keys.bytes, keyLength), payload(row))
      } else {
        val time = row.getLong(timeOrdinal)
        newKeys.foreach(_.add(keys.bytes, Platform.BYTE_ARRAY_OFFSET.toLong, keyLength, time))
        input.keep(rights, keys.bytes, keyLength, time, payload(row))
        null
      }
    }

    override def report(): Unit = {
      metric(JoinMetrics.NullKeyRightRows) += nullRows
      metric(SyncMetrics.FutureRight) += future
    }
  }

  /** Keeps a row of the state, to write it again.
    *
    * @param base see [[io.tailrace.state.RowLayout]]
    */
  def carryLeft(base: AnyRef, at: Long): Unit = lefts.appendRow(base, at)
  def carryRight(base: AnyRef, at: Long): Unit = rights.appendRow(base, at)

  /** Bytes of the rows that are in memory. */
  def bytes: Long = left.bytes + right.bytes + released.bytes

  /** From here on rows are decided: right rows are addressed where they are, and stay there. */
  def endReading(): Unit = read = true

  /** Writes rows into the state before the end of the batch: right rows only until the first row is decided. */
  private def flush(): Unit = {
    if (read) run.add(left, run.rightRows(new RowBuffer(memory)))
    else {
      run.add(left, run.rightRows(right))
      right.clear()
    }
    left.clear()
  }

  /** Writes out the rows in memory that may go, and gives their memory back. @return whether there were any */
  def makeRoom(): Boolean = if (read) makeRoomOfLeft() else makeRoomOfAll()

  private def makeRoomOfAll(): Boolean = bytes > 0 && {
    released.release()
    flush()
    input.release()
    true
  }

  private def makeRoomOfLeft(): Boolean = !left.isEmpty && {
    flush()
    left.release()
    true
  }

  override def close(): Unit = {
    released.close()
    input.close()
  }
}

/** Chooses the runs that a batch carries forward: it writes their living rows into its own run, and drops
  * them. This is done in place of compaction. It bounds the dead rows in files, and the number of files; the
  * cost is proportional to the rows that have died since, or to those of the batch.
  */
object CarriedRuns {

  /** The contents of a run.
    *
    * @param rows  in its sections
    * @param live  those of them that still count
    * @param marks about rows of other runs
    */
  final case class Share(run: String, rows: Long, live: Long, marks: Long)

  def shares(sections: Seq[LiveSection]): Seq[Share] =
    sections.groupBy(_.local.name).toSeq.map { case (name, all) =>
      val (rows, marks) = all.map(_.section).partition(_.kind.hasRows)
      Share(name, rows.map(_.rows).sum, rows.map(_.liveRows).sum, marks.map(_.rows).sum)
    }

  /** A run is carried if fewer than one row in this many is alive. */
  private val DeadShare = 4

  /** @param most runs that may exist after the batch has added one; beyond that the smallest are carried */
  def choose(shares: Seq[Share], most: Int): Set[String] = {
    val (dead, rest) = shares.partition(s => s.live * DeadShare < s.rows || s.rows == 0)
    val surplus = Math.max(0, rest.size - (most - 1))
    val smallest = rest.sortBy(s => s.live + s.marks).take(surplus)
    (dead ++ smallest).map(_.run).toSet
  }
}
