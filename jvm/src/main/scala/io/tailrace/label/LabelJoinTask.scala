package io.tailrace.label

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._

import io.tailrace.common.Mark
import io.tailrace.join.{JoinColumns, JoinInput, JoinMetrics, StoredJoinContext, StoredJoinTask}
import io.tailrace.state.{LiveSection, RowBuffer, RowLayout, StoreKind, TailraceStateStore}

/** A task of the label join: reads both inputs into the state, then gives the rows that come out of it. */
abstract class LabelJoinTask(context: StoredJoinContext, settings: JoinSettings, times: LabelJoinTimes)
    extends StoredJoinTask {
  protected val window: JoinWindow = settings.window

  /** Left rows up to this time have all matches that they get. Where matches are found on arrival, those whose
    * window had closed before it grew keep what they have: right rows that the longer one has may be gone.
    */
  protected val decidedThrough: Long = {
    val watermarkBefore = Math.max(times.lateWatermark, context.store.operatorTime)
    val grown = times.earlier.filter(_ => settings.matchesOnArrival).map(_.leftExpiry(watermarkBefore))
    (grown ++ Seq(context.store.expiredThrough)).max
  }

  /** Left rows up to this time get no row of this batch: when it began, their windows had closed. Some of them may
    * wait for a step. Rows that aren't late match none of them.
    */
  protected val closedThrough: Long = Math.max(decidedThrough, window.leftExpiry(times.lateWatermark))

  protected val amendments: Option[Amendments] =
    settings.amendFor.map(_ => new Amendments(context, settings, times))

  private val input: LabelRows =
    if (context.columns.areImported) new ImportedInput(context, settings, amendments, () => flush())
    else {
      val decided = amendments.fold(closedThrough)(_.after)
      new LabelInput(context, settings, times.lateWatermark, decided, amendments, () => flush())
    }

  /** The number of right rows that were taken though they are late. */
  protected def lateRightsTaken: Long = input.lateTaken

  /** Left rows up to this time have their window closed by the watermark and are due. */
  private val dueThrough: Long = {
    val store = context.store
    val expiry = window.leftExpiry(times.watermark)
    // All rows of a partition were in this one when the batch began.
    val partition = store.id.partitionId % times.partitions
    val due = times.release.through(store.expiredThrough, expiry, partition, times.partitions)
    Math.max(due, decidedThrough)
  }

  /** Left rows up to this time are emitted in this micro-batch, or have been emitted. */
  protected val through: Long = (Seq(dueThrough) ++ times.closed).max
  protected val closing = new ClosedRows(dueThrough, context.metric)
  private var flushNanos = 0L

  override protected def phases(
      left: Iterator[InternalRow],
      right: Iterator[InternalRow]
  ): Seq[() => Iterator[InternalRow]] =
    Seq(() => input.readLeft(left), () => input.readRight(right), () => flushAll(), () => joined)

  override def rowsKept: Long = input.rowsKept
  override def updateNanos: Long = input.readNanos + flushNanos

  /** Writes out what is left in memory: the next phase needs memory, too. */
  private def flushAll(): Iterator[InternalRow] = {
    val started = System.nanoTime
    flush()
    input.release()
    flushNanos = System.nanoTime - started
    Iterator.empty
  }

  /** The window of the batches before, if it has grown with this one: then rows of earlier batches have matches that
    * only the longer one has.
    */
  protected def growth: Option[JoinWindow] = times.earlier

  /** For the next batch: right rows up to there have left. */
  protected def keepWatermark(): Unit =
    context.store.setOperatorTime(Math.max(context.store.operatorTime, times.watermark))

  private def flush(): Unit = {
    write(input.left, input.right)
    input.left.clear()
    input.right.clear()
  }

  /** Writes rows of the micro-batch into the state. It is called several times if they are many. */
  protected def write(left: RowBuffer, right: RowBuffer): Unit

  /** The rows that are emitted when the whole micro-batch is in the state. */
  protected def joined: Iterator[UnsafeRow]

  override def expiryNanos: Long = 0L

  override def close(): Unit = {
    input.close()
    amendments.foreach(_.close())
  }

  protected def pointTo(row: UnsafeRow, rows: RowBuffer, i: Int): UnsafeRow = {
    row.pointTo(rows.base(i), rows.valueOffset(i), rows.valueLength(i))
    row
  }
}

/** Reads the inputs of a label join into buffers, which amendments share their memory with. */
private[label] abstract class LabelRows(
    context: StoredJoinContext,
    amendments: Option[Amendments],
    flush: () => Unit
) extends JoinInput(context, flush) {

  /** The number of late right rows that were taken. */
  def lateTaken: Long

  override def makeRoom(): Boolean = {
    val isAny = !left.isEmpty || !right.isEmpty
    if (isAny) {
      flush()
      release()
    }
    amendments.exists(_.makeRoom()) || isAny
  }
}

/** Reads the inputs of a label join: encodes keys, and tells late rows from others. Late rows that are emitted,
  * and left rows without a time, are emitted at once.
  *
  * A right row behind the watermark is taken all the same, if by the times alone a left row may match it that waits
  * or is still to come, or may be amended. Whether there is one with its key, nobody knows yet.
  *
  * @param decidedThrough left rows up to this time get nothing of this batch
  */
private final class LabelInput(
    context: StoredJoinContext,
    settings: JoinSettings,
    lateWatermark: Long,
    decidedThrough: Long,
    amendments: Option[Amendments],
    flush: () => Unit
) extends LabelRows(context, amendments, flush) {
  import context.{columns, metric, store}
  import settings.window

  private val takesLate = settings.lateLabels.getOrElse(true)
  private val alone = new LoneRows(columns, settings)
  private var taken = 0L

  override def lateTaken: Long = taken

  override def readLeft(rows: Iterator[InternalRow]): Iterator[UnsafeRow] = new Reading(rows, columns.left) {
    private val keys = columns.leftKeyEncoder()
    private val touch = columns.touchProjection()
    private val timeOrdinal = columns.leftTimeOrdinal
    private lazy val late = alone.left(Literal(Mark.LateLeft.reason))
    private lazy val timeless = alone.left(Mark.None)
    private val expired = if (settings.isGrouped) store.expiredThrough else Long.MinValue
    private var lateRows = 0L
    private var timelessRows = 0L
    private var keyless = 0L

    override protected def receive(row: UnsafeRow): UnsafeRow =
      if (row.isNullAt(timeOrdinal)) {
        // It has no window, so nothing can match it.
        timelessRows += 1
        if (settings.isGrouped) timeless(row) else null
      } else {
        val time = row.getLong(timeOrdinal)
        // A row whose time has expired would wait in the state and never are emitted.
        if (JoinWindow.isLate(time, lateWatermark) || JoinWindow.isLate(time, expired)) {
          lateRows += 1
          if (settings.marksLate) late(row) else null
        } else {
          val keyLength = keys.encode(row)
          // Each left row has a group, with or without a key. A pair needs two keys.
          if (keyLength > 0 || (settings.isGrouped && !settings.decided))
            keep(lefts, keys.bytes, keyLength, time, row)
          else keyless += 1
          if (keyLength > 0) touch.foreach(of => keep(rights, keys.bytes, keyLength, time, of(row)))
          // Nothing can match it.
          if (keyLength == 0 && settings.decided) timeless(row) else null
        }
      }

    override protected def report(): Unit = {
      countLate(LabelMetrics.LateLeftRows, lateRows)
      if (settings.isGrouped) {
        metric(LabelMetrics.GroupsOut) += timelessRows + keyless
        metric(LabelMetrics.GroupsUnmatched) += timelessRows + keyless
      } else metric(JoinMetrics.NullKeyLeftRows) += timelessRows + keyless
    }
  }

  override def readRight(rows: Iterator[InternalRow]): Iterator[UnsafeRow] =
    new Reading(rows, columns.right) {
      private val keys = columns.rightKeyEncoder()
      private val timeOrdinal = columns.rightTimeOrdinal
      private val payload = columns.payloadProjection()
      private lazy val late = alone.right
      private val matchless = window.rightExpiryAtWindowEnd(decidedThrough)

      // Left rows up to there have come out, by silence if the watermark is behind the end of their windows. Where they
      // are amended, nothing is missing.
      private val missedThrough =
        settings.closeAfterMs
          .filter(_ => amendments.isEmpty)
          .fold(Long.MinValue)(_ => window.upperBound(store.expiredThrough))
      private var lateRows = 0L
      private var nullRows = 0L
      private var missing = 0L

      private def canMatch(time: Long): Boolean =
        !JoinWindow.isLate(time, matchless) && (takesLate || !JoinWindow.isLate(time, lateWatermark))

      override protected def receive(row: UnsafeRow): UnsafeRow = {
        val keyLength = keys.encode(row)
        if (keyLength == 0 || row.isNullAt(timeOrdinal)) {
          nullRows += 1
          null
        } else {
          val time = row.getLong(timeOrdinal)
          if (!canMatch(time)) {
            lateRows += 1
            if (settings.marksLate) late(row) else null
          } else {
            if (time <= missedThrough) missing += 1
            if (JoinWindow.isLate(time, lateWatermark)) taken += 1
            amendments.foreach(_.note(keys.bytes, keyLength, time))
            keep(rights, keys.bytes, keyLength, time, payload(row))
            null
          }
        }
      }

      override protected def report(): Unit = {
        countLate(LabelMetrics.LateRightRows, lateRows)
        metric(LabelMetrics.LateRightRowsTaken) += taken
        metric(LabelMetrics.RowsAfterSilence) += missing
        metric(JoinMetrics.NullKeyRightRows) += nullRows
      }
    }

  private def countLate(name: String, rows: Long): Unit = {
    metric(name) += rows
    if (!settings.marksLate) metric("numRowsDroppedByWatermark") += rows
  }
}

/** The sections that a micro-batch has written, by side: a run for each part of it. */
private[label] final class WrittenSides(
    store: TailraceStateStore,
    leftKind: StoreKind,
    rightKind: StoreKind,
    bucketWidth: Long
) {
  private val all = new ArrayBuffer[LiveSection]

  def left: Seq[LiveSection] = all.filter(_.section.kind == leftKind).toSeq
  def right: Seq[LiveSection] = all.filter(_.section.kind == rightKind).toSeq

  def add(left: RowBuffer, right: RowBuffer): Unit =
    all ++= store.addRun(bucketWidth, leftKind -> left, rightKind -> right)
}

/** Reads the rows of an import into the state, as they are: there is no watermark yet, so none is late, and none is
  * emitted. The last column of a row says what its state says besides (see `join.ImportableJoin`):
  *
  * {{{
  *   left    12:00  false     waits for the end of its window
  *           11:20  true      was emitted, and may be amended
  *   right   12:03  null      is for each left row of its window
  *           12:04  7         is late in version 7: sequence numbers begin with it
  * }}}
  */
private[label] final class ImportedInput(
    context: StoredJoinContext,
    settings: JoinSettings,
    amendments: Option[Amendments],
    flush: () => Unit
) extends LabelRows(context, amendments, flush) {
  import context.{columns, metric, store}

  override def lateTaken: Long = 0L

  override def readLeft(rows: Iterator[InternalRow]): Iterator[UnsafeRow] = new Reading(rows, columns.left) {
    private val keys = columns.leftKeyEncoder()
    private val touch = columns.touchProjection()
    private val own = columns.leftProjection()
    private val timeOrdinal = columns.leftTimeOrdinal
    private val wasEmitted = columns.left.size

    override protected def receive(row: UnsafeRow): UnsafeRow = {
      val keyLength = keys.encode(row)
      val time = row.getLong(timeOrdinal)
      if (row.getBoolean(wasEmitted))
        amendments.filter(_ => keyLength > 0).foreach(_.keepEmitted(keys.bytes, keyLength, time, own(row)))
      else {
        if (keyLength > 0 || settings.isGrouped) keep(lefts, keys.bytes, keyLength, time, own(row))
        if (keyLength > 0) touch.foreach(of => keep(rights, keys.bytes, keyLength, time, of(row)))
      }
      null
    }

    override protected def report(): Unit = ()
  }

  override def readRight(rows: Iterator[InternalRow]): Iterator[UnsafeRow] =
    new Reading(rows, columns.right) {
      private val keys = columns.rightKeyEncoder()
      private val payload = columns.payloadProjection()
      private val timeOrdinal = columns.rightTimeOrdinal
      private val lateIn = columns.right.size
      private var late = 0L
      private var nullRows = 0L

      private def seqOf(row: UnsafeRow): Long =
        if (row.isNullAt(lateIn)) store.newSeq()
        else {
          late += 1
          RowLayout.firstSeq(row.getLong(lateIn)) + late
        }

      override protected def receive(row: UnsafeRow): UnsafeRow = {
        val keyLength = keys.encode(row)
        if (keyLength == 0 || row.isNullAt(timeOrdinal)) nullRows += 1
        else keepAs(seqOf(row), rights, keys.bytes, keyLength, row.getLong(timeOrdinal), payload(row))
        null
      }

      override protected def report(): Unit = metric(JoinMetrics.NullKeyRightRows) += nullRows
    }
}

/** Makes the rows that are emitted without a row of the other side. */
private[label] final class LoneRows(columns: JoinColumns, settings: JoinSettings) {
  import columns.{leftKeys, payload, rightKeys}

  /** A left row that is emitted on its own: with an empty group, or with nulls for the right row of a pair. */
  def left(mark: Literal): UnsafeProjection =
    UnsafeProjection.create(
      columns.left ++ rest(mark, payload.map(a => Literal(null, a.dataType)), settings.form.empty(columns)),
      columns.left
    )

  /** A right row that is emitted on its own: the left columns null but the keys. */
  def right: UnsafeProjection = {
    val nulls = columns.left.map { a =>
      val key = leftKeys.indexWhere(_.exprId == a.exprId)
      if (key >= 0) rightKeys(key) else Literal(null, a.dataType)
    }
    UnsafeProjection.create(
      nulls ++ rest(Literal(Mark.LateRight.reason), payload, settings.form.alone(columns)),
      columns.right
    )
  }

  private def rest(
      mark: Literal,
      pairColumns: Seq[Expression],
      group: => Seq[Expression]
  ): Seq[Expression] = {
    val all = if (settings.isGrouped) group else pairColumns
    all ++ settings.version.ofNoHorizon(mark)
  }
}
