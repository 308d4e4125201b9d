package io.tailrace.asof

import org.apache.spark.SparkContext
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.plans.{JoinType, LeftOuter}
import org.apache.spark.sql.execution.metric.SQLMetric

import io.tailrace.common.WatermarkRules
import io.tailrace.driver.{JoinFacts, LabelFacts, NextRow}
import io.tailrace.join._
import io.tailrace.state.{StoreKind, TailraceStateStore}

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
  *   later     v2 stays until A has a newer row that the watermark has passed: v1 goes when runs are merged
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
    )
  )

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

  private lazy val closing = settings.closeAfterMs.map(new CloseAfter(exec, _, waiting))

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
      closeAfterMs = settings.closeAfterMs,
      closedThrough = closing.flatMap(_.closedBefore(exec.eventTimeWatermarkForEviction, window.leftExpiry))
    )
  }

  /** Points of left rows may have been passed whenever the watermark has moved, and rows are emitted by idleness. */
  override def needsAnother(watermarkMs: Long): Boolean =
    exec.eventTimeWatermarkForEviction.exists(watermarkMs > _) || closing.exists(_.needsBatch())

  /** A left row is emitted when the watermark passes its point, or with the batch that has it. Neither is after
    * the watermark passes the row. Late rows, which may be emitted too, are before it.
    */
  override def outputWatermark(inputWatermarkMs: Long): Option[Long] = Some(inputWatermarkMs)

  override def tasks: StoredJoinTasks = {
    val times = AsOfTimes(
      WatermarkRules.ofMillis(exec.eventTimeWatermarkForEviction),
      WatermarkRules.ofMillis(exec.eventTimeWatermarkForLateEvents),
      closing.fold(CloseAfter.throughOfRerun(exec))(_.through)
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
