package io.tailrace.label

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._

import io.tailrace.common.Mark
import io.tailrace.join._
import io.tailrace.state._

/** A task of the label join: writes both inputs into the state, then emits what the matching finds. */
private[label] final class LabelJoinTask(batch: LabelBatch, matching: LabelMatching) extends StoredJoinTask {
  private val input = new LabelInput(batch, matching)
  private val passes = new Passes
  private val emitted = batch.settings.balance.map(new EmittedExamples(_, batch))
  private var flushNanos = 0L

  override def output(left: Iterator[InternalRow], right: Iterator[InternalRow]): Iterator[InternalRow] = {
    val rows = passes.rows(
      Seq(
        () => input.readLeft(left),
        () => input.readRight(right),
        () => Pass.withoutRows(flushAll())
      ) ++ matching.passes
    )
    emitted.fold(rows)(_.counting(rows))
  }

  /** Writes out what is left in memory: the next pass needs memory, too. */
  private def flushAll(): Unit = {
    val started = System.nanoTime
    input.flushAll()
    flushNanos = System.nanoTime - started
  }

  override def rowsKept: Long = input.rowsKept
  override def updateNanos: Long = input.readNanos + flushNanos
  override def expiryNanos: Long = matching.expiryNanos
  override def expire(): Long = {
    batch.context.store.setBalance(emitted.flatMap(_.counts))
    emitted.foreach(_.report())
    matching.expire()
  }

  override def close(): Unit = Seq(passes, matching, input, batch).foreach(_.close())
}

/** Reads both sides of a label join into buffers, which amendments share their memory with. */
private final class LabelInput(batch: LabelBatch, matching: LabelMatching) extends AutoCloseable {
  import batch.amendments
  import batch.context.columns

  private val input = new JoinInput(batch.context, () => flush(), () => makeRoom())

  def rowsKept: Long = input.rowsKept
  def readNanos: Long = input.readNanos

  def readLeft(rows: Iterator[InternalRow]): Pass = {
    val receiver = if (columns.areImported) new ImportedLeft(batch, input) else new ArrivingLeft(batch, input)
    input.read(rows, columns.left, receiver)
  }

  def readRight(rows: Iterator[InternalRow]): Pass = {
    val receiver =
      if (columns.areImported) new ImportedRight(batch, input) else new ArrivingRight(batch, input)
    input.read(rows, columns.right, receiver)
  }

  private def flush(): Unit = {
    matching.write(input.left, input.right)
    input.clear()
  }

  /** Writes out all rows in memory, and gives their memory back. */
  def flushAll(): Unit = {
    flush()
    input.release()
  }

  private def makeRoom(): Boolean = {
    val isAny = !input.isEmpty
    if (isAny) flushAll()
    amendments.exists(_.makeRoom()) || isAny
  }

  override def close(): Unit = input.close()
}

/** Receives left rows: encodes keys, and tells late rows from others. Late rows that are emitted, and left rows without
  * a time, are emitted at once.
  *
  * A left row behind the watermark is taken all the same, as long as its window is open:
  *
  * {{{
  *   after = 30 min, watermark 12:20     a left row of 12:05 comes: taken, and emitted at 12:35
  *                                       one of 11:50 comes: late, its window has closed
  * }}}
  */
private final class ArrivingLeft(batch: LabelBatch, input: JoinInput) extends RowReceiver {
  import batch.context.{columns, metric}
  import batch.settings

  private val lateWatermark = batch.times.lateWatermark
  private val alone = new LoneRows(columns, settings)
  private val keys = columns.leftKeyEncoder()
  private val touch = columns.touchProjection()
  private val timeOrdinal = columns.leftTimeOrdinal
  private lazy val late = alone.left(Literal(Mark.LateLeft.reason))
  private lazy val timeless = alone.left(Mark.None)
  private val lateThrough = batch.lateLeftsThrough
  private var lateRows = 0L
  private var taken = 0L
  private var timelessRows = 0L
  private var keyless = 0L

  override def receive(row: UnsafeRow): UnsafeRow =
    if (row.isNullAt(timeOrdinal)) {
      // It has no window, so nothing can match it.
      timelessRows += 1
      if (settings.isGrouped) timeless(row) else null
    } else {
      val time = row.getLong(timeOrdinal)
      if (JoinWindow.isLate(time, lateThrough)) {
        lateRows += 1
        if (settings.marksLate) late(row) else null
      } else {
        if (JoinWindow.isLate(time, lateWatermark)) taken += 1
        val keyLength = keys.encode(row)
        // Each left row has a group, with or without a key. A pair needs two keys.
        if (keyLength > 0 || (settings.isGrouped && !settings.decided))
          input.keep(input.lefts, keys.bytes, keyLength, time, row)
        else keyless += 1
        if (keyLength > 0) touch.foreach(of => input.keep(input.rights, keys.bytes, keyLength, time, of(row)))
        // Nothing can match it.
        if (keyLength == 0 && settings.decided) timeless(row) else null
      }
    }

  override def report(): Unit = {
    batch.countLate(LabelMetrics.LateLeftRows, lateRows, settings.marksLate)
    metric(LabelMetrics.LateLeftRowsAccepted) += taken
    if (settings.isGrouped) {
      metric(LabelMetrics.GroupsEmitted) += timelessRows + keyless
      metric(LabelMetrics.GroupsUnmatched) += timelessRows + keyless
    } else metric(JoinMetrics.NullKeyLeftRows) += timelessRows + keyless
  }
}

/** Receives right rows.
  *
  * A right row behind the watermark is taken all the same, if by the times alone it may match a left row that is buffered
  * or still to come, or that may be amended. Whether there is one with its key, nobody knows yet.
  */
private final class ArrivingRight(batch: LabelBatch, input: JoinInput) extends RowReceiver {
  import batch.context.{columns, metric, store}
  import batch.{amendments, settings, window}

  private val lateWatermark = batch.times.lateWatermark
  private val alone = new LoneRows(columns, settings)
  private val takesLate = settings.lateLabels.getOrElse(true)
  private val keys = columns.rightKeyEncoder()
  private val timeOrdinal = columns.rightTimeOrdinal
  private val payload = columns.payloadProjection()
  private lazy val late = alone.right(Mark.LateRight, columns.right)
  private lazy val nulls = alone.right(Mark.NullRight, columns.right)
  private lazy val isEvent = RightEvents.of(settings.form.isEvent(columns), columns.right)
  private val matchless = window.rightExpiryAtWindowEnd(amendments.fold(batch.closedThrough)(_.after))

  // Left rows up to there have been emitted, by idleness if the watermark is behind the end of their windows. Where they
  // are amended, nothing is missing.
  private val missedThrough =
    settings.idleTimeoutMs
      .filter(_ => amendments.isEmpty)
      .fold(Long.MinValue)(_ => window.upperBound(store.expiredThrough))
  private var lateRows = 0L
  private var nullRows = 0L
  private var missing = 0L
  private var taken = 0L

  private def canMatch(time: Long): Boolean =
    !JoinWindow.isLate(time, matchless) && (takesLate || !JoinWindow.isLate(time, lateWatermark))

  override def receive(row: UnsafeRow): UnsafeRow = {
    val keyLength = keys.encode(row)
    if (keyLength == 0 || row.isNullAt(timeOrdinal)) {
      nullRows += 1
      if (settings.orphans && isEvent(row)) nulls(row) else null
    } else {
      val time = row.getLong(timeOrdinal)
      if (!canMatch(time)) {
        lateRows += 1
        if (settings.marksLateRights) late(row) else null
      } else {
        if (time <= missedThrough) missing += 1
        if (JoinWindow.isLate(time, lateWatermark)) taken += 1
        amendments.foreach(_.note(keys.bytes, keyLength, time))
        input.keep(input.rights, keys.bytes, keyLength, time, payload(row))
        null
      }
    }
  }

  override def report(): Unit = {
    batch.countLate(LabelMetrics.LateRightRows, lateRows, settings.marksLateRights)
    batch.lateRightsTaken = taken
    metric(LabelMetrics.LateRightRowsAccepted) += taken
    metric(LabelMetrics.RowsAfterFlush) += missing
    metric(JoinMetrics.NullKeyRightRows) += nullRows
  }
}

/** Receives the left rows of an import, as they are: there is no watermark yet, so none is late, and none is emitted. The
  * last column of an imported row has the rest of its state (see `join.ImportableJoin`):
  *
  * {{{
  *   left    12:00  false     waits for the end of its window
  *           11:20  true      was emitted, and may be amended
  *   right   12:03  null      is for each left row of its window
  *           12:04  7         is late in version 7: sequence numbers begin with it
  * }}}
  */
private final class ImportedLeft(batch: LabelBatch, input: JoinInput) extends RowReceiver {
  import batch.context.columns
  import batch.{amendments, settings}

  private val keys = columns.leftKeyEncoder()
  private val touch = columns.touchProjection()
  private val own = columns.leftProjection()
  private val timeOrdinal = columns.leftTimeOrdinal
  private val wasEmitted = columns.left.size

  override def receive(row: UnsafeRow): UnsafeRow = {
    val keyLength = keys.encode(row)
    val time = row.getLong(timeOrdinal)
    if (row.getBoolean(wasEmitted))
      amendments.filter(_ => keyLength > 0).foreach(_.keepEmitted(keys.bytes, keyLength, time, own(row)))
    else {
      if (keyLength > 0 || settings.isGrouped) input.keep(input.lefts, keys.bytes, keyLength, time, own(row))
      if (keyLength > 0) touch.foreach(of => input.keep(input.rights, keys.bytes, keyLength, time, of(row)))
    }
    null
  }

  override def report(): Unit = ()
}

/** Receives the right rows of an import: see [[ImportedLeft]]. */
private final class ImportedRight(batch: LabelBatch, input: JoinInput) extends RowReceiver {
  import batch.context.{columns, metric, store}

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

  override def receive(row: UnsafeRow): UnsafeRow = {
    val keyLength = keys.encode(row)
    if (keyLength == 0 || row.isNullAt(timeOrdinal)) nullRows += 1
    else input.keepAs(seqOf(row), input.rights, keys.bytes, keyLength, row.getLong(timeOrdinal), payload(row))
    null
  }

  override def report(): Unit = metric(JoinMetrics.NullKeyRightRows) += nullRows
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

  /** A right row that is emitted on its own.
    *
    * @param input columns of the row: the right keys, and those of the payload
    */
  def right(mark: Mark, input: Seq[Attribute]): UnsafeProjection =
    UnsafeProjection.create(rightValues(Literal(mark.reason)), input)

  /** Its values: the left columns are null but the keys. */
  def rightValues(mark: Expression): Seq[Expression] = {
    val nulls = columns.left.map { a =>
      val key = leftKeys.indexWhere(_.exprId == a.exprId)
      if (key >= 0) rightKeys(key)
      else settings.form.keyAlone(a, columns).getOrElse(Literal(null, a.dataType))
    }
    nulls ++ rest(mark, payload, settings.form.alone(columns))
  }

  private def rest(
      mark: Expression,
      pairColumns: Seq[Expression],
      group: => Seq[Expression]
  ): Seq[Expression] = {
    val own = if (settings.isGrouped) group else pairColumns
    own ++ settings.version.ofNoHorizon(mark)
  }
}

/** Tests rows for being events. */
private[label] object RightEvents {

  /** @param input columns of the rows */
  def of(isEvent: Expression, input: Seq[Attribute]): InternalRow => Boolean = isEvent match {
    case Literal.TrueLiteral => _ => true
    case _ =>
      val predicate = Predicate.create(isEvent, input)
      predicate.initialize(0)
      predicate.eval(_)
  }
}

/** A micro-batch of a label join in one partition: up to which times its left rows are decided, closed and emitted, and
  * what its parts share.
  */
private[label] final class LabelBatch(
    val context: StoredJoinContext,
    val settings: JoinSettings,
    val times: LabelJoinTimes
) extends AutoCloseable {
  import context.store

  val window: JoinWindow = settings.window

  private def watermarkBefore: Long = Math.max(times.lateWatermark, store.operatorTime)

  /** Left rows up to this time have all matches that they get. Where matches are found on arrival, those whose
    * window had closed before it grew keep what they have: right rows that the longer one has may have been evicted.
    */
  val decidedThrough: Long = {
    val grown = times.earlier.filter(_ => settings.matchesOnArrival).map(_.leftExpiry(watermarkBefore))
    (grown ++ Seq(store.expiredThrough)).max
  }

  /** Left rows up to this time get no row of this batch: when it began, their windows had closed. Some of them may
    * wait for a release step. Rows that aren't late match none of them.
    */
  val closedThrough: Long = Math.max(decidedThrough, window.leftExpiry(times.lateWatermark))

  /** Left rows up to this time had windows that closed before `after` grew. Where left rows expire, they stay closed
    * for those that arrive: another partition before a rescale may have evicted their right rows, and late ones
    * weren't taken. The state keeps it as its [[TailraceStateStore.operatorTime]]: a watermark for all other joins.
    */
  val shutThrough: Long =
    if (settings.matchesOnArrival || settings.horizons.nonEmpty) Long.MinValue
    else (times.earlier.map(_.leftExpiry(times.lateWatermark)) ++ Seq(store.operatorTime)).max

  /** Left rows up to this time aren't taken when they arrive. One whose time has expired would stay in the state and
    * never be emitted, and one that has missed its first version would have no version to compare the next one with.
    */
  val lateLeftsThrough: Long = {
    val late =
      if (settings.takesLateLefts) Math.max(settings.firstWindow.leftExpiry(watermarkBefore), shutThrough)
      else times.lateWatermark
    if (settings.isGrouped) Math.max(store.expiredThrough, late) else late
  }

  /** Left rows up to this time have their window closed by the watermark, and their release step has begun. */
  private val dueThrough: Long = {
    val expiry = window.leftExpiry(times.watermark)
    // All rows of a partition were in this one when the batch began.
    val partition = store.id.partitionId % times.partitions
    val due = times.release.through(store.expiredThrough, expiry, partition, times.partitions)
    Math.max(due, decidedThrough)
  }

  /** Left rows up to this time are emitted in this micro-batch, or have been emitted. */
  val through: Long = (Seq(dueThrough) ++ times.closed).max

  val closing = new ClosedRows(dueThrough, context.metric)
  val amendments: Option[Amendments] = settings.amendFor.map(_ => new Amendments(context, settings, times))

  /** The number of right rows that were taken though they are late, when both inputs have been read. */
  var lateRightsTaken = 0L

  /** For the next batch: right rows up to there have been evicted. */
  def keepWatermark(): Unit = store.setOperatorTime(Math.max(store.operatorTime, times.watermark))

  /** @param name      of a metric
    * @param areMarked whether they are emitted
    */
  def countLate(name: String, rows: Long, areMarked: Boolean): Unit = {
    context.metric(name) += rows
    if (!areMarked) context.metric("numRowsDroppedByWatermark") += rows
  }

  override def close(): Unit = amendments.foreach(_.close())
}

/** A strategy for the matches of a micro-batch: what of its rows is written, and which passes find the rows that are
  * emitted.
  */
private[label] trait LabelMatching extends AutoCloseable {

  /** Writes rows of the micro-batch into the state. It is called several times if they are many. */
  def write(left: RowBuffer, right: RowBuffer): Unit

  /** The passes after the whole micro-batch has been written. None has begun when this returns. */
  def passes: Seq[() => Pass]

  /** See [[io.tailrace.join.StoredJoinTask]]. */
  def expiryNanos: Long
  def expire(): Long
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

/** Counts the examples that a task emits. An example before the `since` of a label is unknown, if no other label makes it a
  * positive. It isn't counted, and neither are rows with a mark: late ones, orphans, and examples without a stream that is
  * excluded, whose missing events would make positives negatives.
  */
private final class EmittedExamples(balance: NegativeBalance, batch: LabelBatch) {
  import batch.context.{columns, metric, store}

  private val places =
    balance.ratios.map { case (label, _) =>
      columns.left.size + columns.added.indexWhere(_.name == label)
    }.toArray
  private val markAt =
    if (batch.settings.hasMarks) columns.left.size + columns.added.size - 1 else EmittedExamples.NoMark
  private val positives = new Array[Long](places.length)
  private var allPositives = 0L
  private var negatives = 0L

  def counting(rows: Iterator[InternalRow]): Iterator[InternalRow] = rows.map { row =>
    if (markAt == EmittedExamples.NoMark || row.isNullAt(markAt)) see(row)
    row
  }

  private def see(row: InternalRow): Unit = {
    var known = 0
    var matched = 0
    var i = 0
    while (i < places.length) {
      if (!row.isNullAt(places(i))) {
        known += 1
        if (row.getArray(places(i)).numElements() > 0) {
          matched += 1
          positives(i) += 1
        }
      }
      i += 1
    }
    if (matched > 0) allPositives += 1
    else if (known == places.length) negatives += 1
  }

  /** Those of the next version; none: no example has been emitted. */
  def counts: Option[BalanceCounts] = {
    val before = store.balance.fold(BalanceCounts(balance.ratios.map(_._1), Nil))(balance.known)
    val next =
      if (allPositives + negatives == 0) before
      else before.add(batch.through, (positives.toSeq, negatives), balance.over)
    Option.when(next.steps.nonEmpty)(next)
  }

  def report(): Unit = {
    metric(LabelMetrics.BalancedPositives) += allPositives
    metric(LabelMetrics.BalancedNegatives) += negatives
    metric(LabelMetrics.BalancedNegativesExpected) += Math.round(balance.rate * negatives.toDouble)
  }
}

private object EmittedExamples {
  val NoMark: Int = -1
}
