package io.tailrace.sync

import java.util.Arrays

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.unsafe.Platform

import io.tailrace.join.{JoinInput, JoinMetrics, StoredJoinContext, StoredJoinTask}
import io.tailrace.state.{KeptMemory, LiveSection, OrderedRows, RowBuffer, RunCursor, SortedRows, StoreKind}

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
  * before 12:00:25 are released. Each is emitted with its right row, whenever that arrived. With `exactly_one` a
  * left row that isn't released is emitted too, if its right row is there ([[EarlyLeft]]).
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
  private val heldLeft = new BufferedLeft(store, through, knowledge.left, memory, bufferBytes)
  private val early = Option.when(settings.exactlyOne)(
    new EarlyLeft(store, through, heldLeft, released, input.carry(input.left, _, _))
  )
  private val reach =
    if (settings.exactlyOne) Long.MaxValue else SyncRules.joinsThrough(through, settings)
  private val heldRight = new BufferedRight(store, hash, memory, bufferBytes, reach, knowledge.right)
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

  /** The bytes of rows that a task holds at least, however little memory is left for others. */
  private val AlwaysHeld = 1L << 20
}

/** Reads the inputs of a synced join. A left row is released at once, or buffered; a right row is buffered. Left
  * rows without a key or a time are emitted at once: nothing can match them. With `exactly_one` left rows that aren't
  * released are merged with those that are ([[EarlyLeft]]).
  *
  * @param through left rows up to this time are released
  * @param joined  rows up to this time are joined; those beyond are emitted at once, marked
  * @param newKeys gets the right rows that the batch brings, with `exactly_one`
  */
private[sync] final class SyncInput(
    context: StoredJoinContext,
    through: Long,
    joined: Long,
    released: OrderedRows,
    writer: => SyncWriter,
    newKeys: Option[NewKeys],
    flush: () => Unit
) extends JoinInput(context, flush) {
  import context.{columns, metric, store}
  private var read = false

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
          if (time <= through || newKeys.nonEmpty) {
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
          val time = row.getLong(timeOrdinal)
          newKeys.foreach(_.add(keys.bytes, Platform.BYTE_ARRAY_OFFSET.toLong, keyLength, time))
          keep(rights, keys.bytes, keyLength, time, payload(row))
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

  /** From here on rows are decided: right rows are addressed where they are, and stay there. */
  def endReading(): Unit = read = true
  def isRead: Boolean = read

  override def makeRoom(): Boolean = if (read) makeRoomOfLeft() else makeRoomOfAll()

  private def makeRoomOfAll(): Boolean = bytes > 0 && {
    released.release()
    flush()
    release()
    true
  }

  private def makeRoomOfLeft(): Boolean = !left.isEmpty && {
    flush()
    left.release()
    true
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
