package io.tailrace.asof

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.SparkContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Expression, UnsafeRow}
import org.apache.spark.sql.catalyst.plans.{JoinType, LeftOuter}
import org.apache.spark.sql.execution.metric.SQLMetric

import io.tailrace.common.WatermarkRules.isLate
import io.tailrace.common.{MemoryErrors, RowMemoryExhausted, WatermarkRules}
import io.tailrace.explain.{JoinFacts, LabelFacts, NextRow}
import io.tailrace.join._
import io.tailrace.state._

/** The as-of join of streams. Per partition and micro-batch:
  *
  * {{{
  *   left child ──┐ shuffled by key                      ┌─> left rows, each with its right row
  *                ├──> AsOfTask ──── TailraceStateStore ──┤
  *   right child ─┘ shuffled by key                      └─> commit: next version of the partition's state
  * }}}
  *
  * An example, delay = 0, watermark delay 5 minutes:
  *
  * {{{
  *   batch 1   right (A, 12:00, v1), left (A, 12:10)   watermark 12:05   nothing is emitted
  *   batch 2   right (A, 12:08, v2), left (B, 12:16)   watermark 12:11   (A, 12:10, v2): 12:10 is passed
  *   later     v2 stays until A has a newer row that the watermark has reached: v1 goes when runs are merged
  * }}}
  */
final case class StoredAsOf(columns: JoinColumns, settings: AsOfSettings) extends StoredJoin {
  override def nodeName: String = "TailraceAsOf"
  override def operatorName: String = JoinCheckpoint.AsOf
  override def joinType: JoinType = LeftOuter
  override def words(keys: String): String = s"as-of join on $keys"
  override def explain: String = s"$nodeName ${columns.keysText}, ${settings.text}"

  override def leftSpread: Option[Expression] = columns.spreadOfNullKeys

  /** With a longer `delay` or `max_age`, right rows that are needed would already be evicted. The name of the
    * column doesn't affect the state.
    */
  override def pinned(columns: JoinColumns): PinnedSettings = PinnedSettings(
    PinnedSettings.ofColumns(columns) ++ Seq(
      PinnedSetting.fixed(JoinCheckpoint.How, StoredAsOf.How),
      PinnedSetting.duration(JoinCheckpoint.Delay, settings.window.delay),
      PinnedSetting.optional(JoinCheckpoint.MaxAge, settings.window.maxAge.map(PinnedSetting.text(_)))
    ),
    mayLack = Seq(JoinCheckpoint.FirstInput)
  )

  override def firstInput: Option[String] = Option.when(settings.hasInitial)(AsOfOptions.Initial)

  override def createMetrics(context: SparkContext): Map[String, SQLMetric] = AsOfMetrics.create(context)
  override def onDriver(exec: PlannedJoin): StoredJoinDriver = new AsOfDriver(settings, exec)
}

object StoredAsOf {

  /** Distinguishes its checkpoints from those of other joins. It never changes. */
  private val How = "as-of"
}

private final class AsOfDriver(settings: AsOfSettings, exec: PlannedJoin) extends StoredJoinDriver {
  import settings.window

  private lazy val waiting = WaitingLeft.in(exec.session.sparkContext)

  private lazy val closing = settings.idleTimeoutMs.map(new IdleTimeout(exec, _, waiting))

  override def hasTold: Boolean = waiting.now.size == exec.partitions
  override def oldestWaiting: Option[Map[Int, Option[Long]]] = Some(waiting.now)

  override def waits: JoinFacts = {
    val metrics = exec.metrics
    def isEmpty(bytes: String) = Option.when(metrics(bytes).value == 0)(0L)
    LabelFacts(
      isGrouped = true,
      -window.delay,
      exec.eventTimeWatermarkForEviction.filter(_ > 0).map(_ * 1000),
      isEmpty(JoinMetrics.LeftStoreBytes),
      isEmpty(JoinMetrics.RightStoreBytes),
      waiting.oldest.map { case (time, partition) =>
        NextRow(time, isBound = true, partition, key = None, Some(window.point(time)))
      },
      late = metrics(AsOfMetrics.LateLeftRows).value -> metrics(AsOfMetrics.LateRightRows).value,
      idleTimeoutMs = settings.idleTimeoutMs,
      closedThrough = closing.flatMap(_.closedBefore(exec.eventTimeWatermarkForEviction, window.leftExpiry))
    )
  }

  /** Points of left rows may have been passed whenever the watermark has moved, and rows are emitted by idleness. */
  override def needsAnother(watermarkMs: Long): Boolean =
    exec.eventTimeWatermarkForEviction.exists(watermarkMs > _) || closing.exists(_.needsBatch())

  /** A left row is emitted when the watermark reaches its point, or with the batch that has it. Neither is after
    * the watermark reaches the row. Late rows, which may be emitted too, are before it.
    */
  override def outputWatermark(inputWatermarkMs: Long): Option[Long] = Some(inputWatermarkMs)

  override def tasks: StoredJoinTasks = {
    val times = AsOfTimes(
      WatermarkRules.ofMillis(exec.eventTimeWatermarkForEviction),
      WatermarkRules.ofMillis(exec.eventTimeWatermarkForLateEvents),
      closing.fold(IdleTimeout.throughOfRerun(exec))(_.through)
    )
    new AsOfTasks(times, window, waiting, settings.late)
  }
}

private[tailrace] final class AsOfTasks(
    times: AsOfTimes,
    window: AsOfWindow,
    waiting: WaitingLeft,
    late: LateLefts = LateLefts.Dropped
) extends StoredJoinTasks {
  override def task(context: StoredJoinContext): StoredJoinTask =
    new AsOfTask(context, window, times, late)

  override def leftKinds: Seq[StoreKind] = Seq(StoreKind.LeftTimeSorted)
  override def rightKind: StoreKind = StoreKind.RightNewest
  override def joinedKinds: Seq[StoreKind] = Nil

  override def report(store: TailraceStateStore, metric: String => SQLMetric): Unit = waiting.tell(store)
}

/** The metrics of the as-of join, beside those of any join. */
object AsOfMetrics {
  val LateLeftRows = "lateLeftRows"
  val LateRightRows = "lateRightRows"
  val FlushedByIdleTimeout = "flushedByIdleTimeout"
  val RowsAfterFlush = "rowsAfterFlush"
  val FeaturesFound = "featuresFound"
  val FeaturesMissing = "featuresMissing"

  private val counts = Seq(
    LateLeftRows -> "left rows behind the watermark",
    LateRightRows -> "right rows behind the watermark",
    FlushedByIdleTimeout -> "left rows flushed by idle_timeout, before the watermark",
    RowsAfterFlush -> "right rows that left rows flushed by idle_timeout may have missed",
    FeaturesFound -> "left rows that were emitted with a right row",
    FeaturesMissing -> "left rows that were emitted without one"
  )

  val names: Seq[String] = JoinMetrics.names ++ counts.map(_._1)

  def create(context: SparkContext): Map[String, SQLMetric] = JoinMetrics.create(context, counts, Nil)
}

/** The times of a micro-batch, in microseconds.
  *
  * @param watermark     left rows are emitted by it
  * @param lateWatermark rows are late by it: the watermark of the micro-batch before
  * @param closed        left rows up to this time are emitted in any case; none: those whose points have been passed
  */
final case class AsOfTimes(watermark: Long, lateWatermark: Long, closed: Option[Long] = None)

/** Nothing is looked up when a row arrives. When the watermark has reached the points of left rows, they are read
  * in the order of time, a chunk at a time. Each chunk is sorted by key and merged with all right rows.
  *
  * {{{
  *   batch ──sort──> one run: left rows by time, right rows by key and time
  *         └───────> left rows whose points the watermark has reached already: a local file of this task
  *
  *   left-time-sorted ──scan (expired, now]──┐
  *   the local file ─────────────────────────┴─> chunk ──sort by key──┐
  *   right-newest ── pages with the newest row before each point ─────┴─ merge ──> left row, right row
  * }}}
  *
  * The state keeps what later left rows may find: see [[io.tailrace.state.NewestRows]].
  */
private[asof] final class AsOfTask(
    context: StoredJoinContext,
    window: AsOfWindow,
    times: AsOfTimes,
    late: LateLefts
) extends StoredJoinTask {
  import context._

  private val leftKind = StoreKind.LeftTimeSorted

  /** Left rows up to this time are emitted in this micro-batch, or have been emitted. */
  private val through: Long =
    (Seq(store.expiredThrough, window.leftExpiry(times.watermark)) ++ times.closed).max
  private val writer = new AsOfWriter(columns, memory)
  private val input = new AsOfInput(context, window, times, through, writer, late)
  private val passes = new Passes
  private val chunk = new RowBuffer(memory)
  private val share = new MemoryShare(memory, bufferBytes)
  private val merge = new AsOfMerge(window)
  private var expiring: Option[ExpiringRows] = None
  private var arrived: Option[ExpiringRows] = None
  private var nanos = 0L
  private var flushNanos = 0L

  override def output(left: Iterator[InternalRow], right: Iterator[InternalRow]): Iterator[InternalRow] =
    passes.rows(
      Seq(
        () => input.readLeft(left),
        () => input.readRight(right),
        () => Pass.withoutRows(flushAll()),
        () => found()
      )
    )

  /** Writes out what is left in memory: the next pass needs memory, too. */
  private def flushAll(): Unit = {
    val started = System.nanoTime
    input.makeRoom(): Unit
    input.release()
    flushNanos = System.nanoTime - started
  }

  private def found(): Pass = {
    expiring = Some(new ExpiringRows(store, leftKind, store.expiredThrough, through))
    arrived = Some(new ExpiringRows(leftKind, Long.MinValue, through, input.dueSections))
    new Found(Seq(expiring.get, arrived.get))
  }

  /** The left rows that are emitted, each with its right row: one in a step. */
  private final class Found(due: Seq[ExpiringRows]) extends Pass {
    private val rightSections = store.sectionsOf(StoreKind.RightNewest)
    private val leftRow = new UnsafeRow(columns.left.size)
    private var withRow = 0L
    private var without = 0L
    private var closed = 0L
    private val passedThrough = Math.max(store.expiredThrough, window.leftExpiry(times.watermark))

    override protected def step(): UnsafeRow =
      if (merge.next()) write()
      else {
        nextChunk()
        null
      }

    private def write(): UnsafeRow = {
      val probe = merge.probe
      if (chunk.time(probe) > passedThrough) closed += 1
      leftRow.pointTo(chunk.base(probe), chunk.valueOffset(probe), chunk.valueLength(probe))
      if (merge.hasFound) {
        withRow += 1
        try writer.write(leftRow, merge.newest)
        catch {
          case e: RowMemoryExhausted =>
            throw MemoryErrors.groupTooLarge(1, merge.newest.valueLength.toLong, e)
        }
      } else {
        without += 1
        writer.alone(leftRow)
      }
    }

    private def nextChunk(): Unit = {
      val started = System.nanoTime
      chunk.clear()
      share.reset()
      due.find(!_.isEmpty).foreach(_.fill(chunk, share))
      merge.start(chunk, RowSort.byKey(chunk), rightSections)
      nanos += System.nanoTime - started
      if (chunk.isEmpty) {
        metric(AsOfMetrics.FlushedByIdleTimeout) += closed
        metric(AsOfMetrics.FeaturesFound) += withRow
        metric(AsOfMetrics.FeaturesMissing) += without
        end()
      }
    }
  }

  override def rowsKept: Long = input.rowsKept
  override def updateNanos: Long = input.readNanos + flushNanos
  override def expiryNanos: Long = nanos

  override def expire(): Long = {
    val taken = expiring.fold(Map.empty[LiveSection, Long])(_.taken)
    store.markExpired(leftKind, through, taken.getOrElse(_, 0L))
    store.dropThrough(leftKind, through)
    store.setOperatorTime(Math.max(store.operatorTime, window.pointsThrough(times.watermark)))
    taken.values.sum + store.dropThrough(StoreKind.RightNewest, window.rightExpiry(store.operatorTime))
  }

  override def close(): Unit = {
    passes.close()
    expiring.foreach(_.close())
    arrived.foreach(_.close())
    merge.close()
    chunk.close()
    writer.close()
    input.close()
  }
}

/** Reads the inputs of an as-of join: encodes keys, separates late rows from others, and left rows that are emitted in
  * this micro-batch from those that stay buffered. Left rows without a time are emitted at once.
  *
  * @param through    left rows up to this time are emitted in this micro-batch
  * @param late       the treatment of late left rows
  */
private[asof] final class AsOfInput(
    context: StoredJoinContext,
    window: AsOfWindow,
    times: AsOfTimes,
    through: Long,
    writer: AsOfWriter,
    late: LateLefts
) extends AutoCloseable {
  import context.{bufferBytes, columns, memory, metric, store}

  private val input = new JoinInput(context, () => flush(), () => makeRoom())

  private val due = new FlushingRows(memory, bufferBytes, () => flushDue(), () => makeRoom())
  private val scratch = new ArrayBuffer[ScratchRun]

  /** The left rows that are emitted in this micro-batch and weren't in the state. */
  def dueSections: Seq[LiveSection] = scratch.iterator.flatMap(_.sections).toSeq

  def rowsKept: Long = input.rowsKept
  def readNanos: Long = input.readNanos

  def readLeft(rows: Iterator[InternalRow]): Pass = input.read(rows, columns.left, new LeftRows)
  def readRight(rows: Iterator[InternalRow]): Pass = input.read(rows, columns.right, new RightRows)

  private final class LeftRows extends RowReceiver {
    private val keys = columns.leftKeyEncoder()
    private val timeOrdinal = columns.leftTimeOrdinal
    // Right rows that points up to there would need may have been evicted.
    private val passed = window.leftExpiry(store.operatorTime)
    private val isDropped = late == LateLefts.Dropped
    private var lateRows = 0L
    private var timelessRows = 0L

    override def receive(row: UnsafeRow): UnsafeRow =
      if (row.isNullAt(timeOrdinal)) {
        timelessRows += 1
        writer.alone(row)
      } else {
        val time = row.getLong(timeOrdinal)
        if (isLate(time, times.lateWatermark) || isLate(time, passed)) {
          lateRows += 1
          if (isDropped) null else writer.late(row)
        } else {
          val keyLength = keys.encode(row)
          if (isLate(time, through)) due.append(keys.bytes, keyLength, time, store.newSeq(), row)
          else input.keep(input.lefts, keys.bytes, keyLength, time, row)
          null
        }
      }

    override def report(): Unit = {
      countLate(AsOfMetrics.LateLeftRows, lateRows, isDropped)
      metric(AsOfMetrics.FeaturesMissing) += timelessRows + (if (isDropped) 0L else lateRows)
    }
  }

  private final class RightRows extends RowReceiver {
    private val keys = columns.rightKeyEncoder()
    private val timeOrdinal = columns.rightTimeOrdinal
    private val payload = columns.payloadProjection()

    // Left rows up to there have been emitted; by idleness if the watermark is before their points.
    private val missedThrough = window.point(store.expiredThrough)
    private var missing = 0L
    private var lateRows = 0L
    private var nullRows = 0L

    override def receive(row: UnsafeRow): UnsafeRow = {
      val keyLength = keys.encode(row)
      if (keyLength == 0 || row.isNullAt(timeOrdinal)) nullRows += 1
      else {
        val time = row.getLong(timeOrdinal)
        if (isLate(time, times.lateWatermark)) lateRows += 1
        else {
          if (time <= missedThrough) missing += 1
          input.keep(input.rights, keys.bytes, keyLength, time, payload(row))
        }
      }
      null
    }

    override def report(): Unit = {
      countLate(AsOfMetrics.LateRightRows, lateRows, isDropped = true)
      metric(AsOfMetrics.RowsAfterFlush) += missing
      metric(JoinMetrics.NullKeyRightRows) += nullRows
    }
  }

  private def flush(): Unit = {
    // One section each: rows leave by the newest of their key, and not by their time.
    store.addRun(
      Long.MaxValue,
      StoreKind.LeftTimeSorted -> input.left,
      StoreKind.RightNewest -> input.right
    )
    input.clear()
  }

  /** Writes out all rows in memory, and gives their memory back. @return whether there were any */
  def makeRoom(): Boolean = !(input.isEmpty && due.rows.isEmpty) && {
    flush()
    flushDue()
    release()
    true
  }

  private def flushDue(): Unit = if (!due.rows.isEmpty) {
    scratch += store.scratch(SortedRows.all(ScratchKind.ByTime, due.rows, Long.MaxValue))
    due.rows.clear()
  }

  def release(): Unit = {
    due.rows.release()
    input.release()
  }

  override def close(): Unit = {
    due.rows.close()
    scratch.foreach(_.close())
    scratch.clear()
    input.close()
  }

  private def countLate(name: String, rows: Long, isDropped: Boolean): Unit = {
    metric(name) += rows
    if (isDropped) metric("numRowsDroppedByWatermark") += rows
  }
}
