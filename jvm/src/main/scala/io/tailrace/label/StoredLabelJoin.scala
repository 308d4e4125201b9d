package io.tailrace.label

import org.apache.spark.SparkContext
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.plans.{Inner, JoinType, LeftOuter}
import org.apache.spark.sql.execution.metric.SQLMetric

import io.tailrace.common.TailraceConf
import io.tailrace.explain.{JoinFacts, LabelFacts, NextRow}
import io.tailrace.join.JoinCheckpoint.{LabelJoin => OperatorName}
import io.tailrace.join._
import io.tailrace.state.{StoreKind, TailraceStateStore}

/** The label join of streams. Per partition and micro-batch:
  *
  * {{{
  *   left child ──┐ shuffled by key                      ┌─> emitted rows
  *                ├──> LabelJoinTask ── TailraceStateStore┤
  *   right child ─┘ shuffled by key                      └─> commit: next version of the partition's state
  * }}}
  *
  * An example, after = 30 minutes, watermark delay 5 minutes:
  *
  * {{{
  *   batch 1   left (A, 12:00), right (A, 12:10)    watermark 12:05   nothing is emitted
  *   batch 2   right (A, 12:25), left (B, 12:36)    watermark 12:31   (A, [12:10, 12:25]): 12:30 is passed
  *   batch 3   right (A, 12:31)                     late: at the watermark; counted
  * }}}
  */
final case class StoredLabelJoin(columns: JoinColumns, settings: JoinSettings) extends StoredJoin {
  override def nodeName: String = "TailraceLabelJoin"
  override def operatorName: String = OperatorName
  override def joinType: JoinType = if (settings.isGrouped) LeftOuter else Inner
  override def words(keys: String): String = s"join on $keys"
  override def explain: String = s"$nodeName ${columns.keysText}, ${settings.text}, " +
    s"strategy=${settings.strategy.name} (${settings.strategy.moment})"

  /** A left row with a null in its key matches nothing, but is emitted. By its key alone, it would go to one
    * partition with all others.
    */
  override def leftSpread: Option[Expression] = if (settings.isGrouped) columns.spreadOfNullKeys else None

  override def pinned(columns: JoinColumns): PinnedSettings = {
    val ofColumns = PinnedSettings
      .ofColumns(columns)
      // Hot keys are split by one more key column, which their error doesn't mention.
      .map(_.copy(follows = Some(JoinCheckpoint.Salted)))
    val ofJoin = ofColumns ++ Seq(
      PinnedSetting.fixed(JoinCheckpoint.How, settings.output.name),
      PinnedSetting
        .fixed(TailraceConf.JoinStrategy.key, strategyText)
        .copy(follows = Some(JoinCheckpoint.How)),
      PinnedSetting.duration(JoinCheckpoint.Before, settings.window.before).copy(change = beforeMayBe),
      PinnedSetting.duration(JoinCheckpoint.After, settings.window.after).copy(change = afterMayBe),
      PinnedSetting
        .optional(JoinCheckpoint.Salted, settings.saltedKeys)
        .copy(words = SettingWords.Argument(renamed = Some("salted_keys"))),
      PinnedSetting
        .optional(JoinCheckpoint.Horizons, settings.horizons.map(_.text))
        .copy(words = SettingWords.Horizons(settings.horizons.map(_.argument), Some("early"))),
      PinnedSetting
        .optional(JoinCheckpoint.OneToOne, Option.when(settings.oneToOne)("true"))
        .copy(words = SettingWords.Argument(absent = Some("False"), renamed = Some("one_to_one"))),
      PinnedSetting
        .optional(JoinCheckpoint.Orphans, Option.when(settings.orphans)("true"))
        .copy(words = SettingWords.Argument(absent = Some("False"))),
      PinnedSetting
        .optional(JoinCheckpoint.Release, Option.when(settings.decided)(Release.Decided.name))
        .copy(words = SettingWords.Argument(absent = Some(Release.Closed.name))),
      releaseSteps,
      lateLabels
    )
    PinnedSettings(
      settings.form.pinned(ofJoin, settings.alsoBound),
      // Labels may be left out, and so may a sample.
      mayLack = Seq(KeptColumns.Setting, JoinCheckpoint.OfExamples, JoinCheckpoint.Credits),
      settings.form.columnWords
    )
  }

  /** `release="decided"` is a setting of its own, so its strategy has no second name here. */
  private def strategyText: String =
    if (settings.decided) MatchStrategy.Lazy.name else settings.strategy.name

  /** A left row waits as long as the watermark is before the end of its window. So all right rows behind that end
    * are there, or are still to come, and the row's longer window is complete: with `before` = 0, right rows up to
    * the watermark have left. The last horizon is the window's end, and versions have been emitted by the others.
    */
  private def afterMayBe: SettingChange =
    if (settings.horizons.nonEmpty) SettingChange.Never
    else if (settings.form.mayShrink) SettingChange.LongerOrShorter
    else SettingChange.Longer

  /** With horizons, versions have been emitted by the previous window. */
  private def beforeMayBe: SettingChange =
    if (settings.form.mayShrink && settings.horizons.isEmpty) SettingChange.Shorter else SettingChange.Never

  /** With shorter steps, buffered rows would be behind the watermark downstream. With longer ones that watermark would go
    * back, and rows that have left the state there could come again.
    */
  private def releaseSteps: PinnedSetting = PinnedSetting(
    JoinCheckpoint.ReleaseEvery,
    value =
      if (!settings.isGrouped) PinnedValue.Absent
      else settings.release.fold(inherited(ReleaseSteps.default(settings.window)))(fixed),
    missing = implied(settings.isGrouped, ReleaseSteps.EachBatch.text),
    follows = Some(JoinCheckpoint.How)
  )

  private def lateLabels: PinnedSetting = {
    val isPinned = !settings.isGrouped && settings.lateLabelsWiden
    PinnedSetting(
      JoinCheckpoint.LateLabels,
      value =
        if (!isPinned) PinnedValue.Absent
        else
          settings.lateLabels
            .fold[PinnedValue](PinnedValue.Inherited("true"))(taken => PinnedValue.Fixed(taken.toString)),
      missing = implied(isPinned, "false"),
      follows = Some(JoinCheckpoint.How)
    )
  }

  private def inherited(steps: ReleaseSteps): PinnedValue = PinnedValue.Inherited(steps.text)
  private def fixed(steps: ReleaseSteps): PinnedValue = PinnedValue.Fixed(steps.text)

  private def implied(isPinned: Boolean, text: String): MissingSetting =
    if (isPinned) MissingSetting.Implied(text) else MissingSetting.Absent

  /** A join amends by its keys alone. Labels of examples may have further ones. */
  override def keptColumns: Option[Set[String]] =
    Option.when(settings.amendFor.nonEmpty && settings.alsoBound.nonEmpty)(columns.kept.map(_.name).toSet)

  override def createMetrics(context: SparkContext): Map[String, SQLMetric] =
    LabelMetrics.create(context, areBalanced = settings.balance.nonEmpty)
  override def onDriver(exec: PlannedJoin): StoredJoinDriver = new LabelJoinDriver(settings, exec)
}

private final class LabelJoinDriver(settings: JoinSettings, exec: PlannedJoin) extends StoredJoinDriver {
  import settings.window

  // A setting that the user leaves open is that of the checkpoint.
  private lazy val release: ReleaseSteps =
    if (!settings.isGrouped) ReleaseSteps.EachBatch
    else settings.release.getOrElse(ReleaseSteps.of(exec.checkpointSettings(JoinCheckpoint.ReleaseEvery)))

  private lazy val takesLate: Boolean = settings.lateLabels.getOrElse(
    !settings.lateLabelsWiden || exec.checkpointSettings(JoinCheckpoint.LateLabels).toBoolean
  )

  private lazy val waiting = WaitingLeft.in(exec.session.sparkContext)

  private lazy val closing = settings.idleTimeoutMs.map(new IdleTimeout(exec, _, waiting))

  private lazy val stalls = settings.streams.map(LabelStreams.of(exec, _))

  override def hasTold: Boolean = !settings.isGrouped || waiting.now.size == exec.partitions
  override def oldestWaiting: Option[Map[Int, Option[Long]]] = Option.when(settings.isGrouped)(waiting.now)

  override def waits: JoinFacts = {
    val metrics = exec.metrics
    def isEmpty(bytes: String) = Option.when(metrics(bytes).value == 0)(0L)
    LabelFacts(
      settings.isGrouped,
      window.after,
      exec.eventTimeWatermarkForEviction.filter(_ > 0).map(_ * 1000),
      isEmpty(JoinMetrics.LeftStoreBytes),
      isEmpty(JoinMetrics.RightStoreBytes),
      waiting.oldest.map { case (time, partition) =>
        val needs = window.upperBound(time)
        NextRow(time, isBound = true, partition, key = None, Some(needs), atMostMore = release.every)
      },
      late = metrics(LabelMetrics.LateLeftRows).value -> metrics(LabelMetrics.LateRightRows).value,
      streams = stalls.toSeq.flatMap(_.facts),
      idleTimeoutMs = settings.idleTimeoutMs,
      closedThrough = closing.flatMap(_.closedBefore(exec.eventTimeWatermarkForEviction, window.leftExpiry))
    )
  }

  /** Rows may have expired whenever the watermark has moved, or when the query is idle. */
  override def needsAnother(watermarkMs: Long): Boolean = {
    val isBehind = settings.streams.exists(LabelStreams.note(exec, _))
    isBehind || exec.eventTimeWatermarkForEviction.exists(watermarkMs > _) || closing.exists(_.needsBatch())
  }

  /** No later row is older than this: a row may have waited for its partner, or for the end of its window
    * and the next step. The first batch with a shorter window gives rows that have waited for the longer one.
    */
  override def outputWatermark(inputWatermarkMs: Long): Option[Long] = {
    val wait =
      if (settings.isGrouped)
        window.longestWaitOfGroups(Growth.longestUntil(exec.batchId, exec.grown), release.every)
      else window.longestWait(takesLate)
    Some((Seq(JoinWindow.passedOn(inputWatermarkMs, wait)) ++ closedMs).max)
  }

  /** No older rows follow those that an idle query has flushed, though they are ahead of the watermark. Rows of this batch
    * itself may be older: this is about the next batch once the tasks have run, and about this one before.
    */
  private def closedMs: Option[Long] =
    closing.flatMap(_.closedThrough).map(Math.floorDiv(_, 1000L))

  override def tasks: StoredJoinTasks = {
    val incompleteAfter = settings.streams.flatMap(LabelStreams.begins(exec, _))
    val watermark = JoinWindow.ofMillis(exec.eventTimeWatermarkForEviction)
    val lateWatermark = JoinWindow.ofMillis(exec.eventTimeWatermarkForLateEvents)
    val buckets = TailraceConf.BucketsPerWindow.read(exec.setting)
    val (after, earlier) = Growth.of(exec.batchId, exec.grown)
    val now =
      settings.copy(window = window.copy(after = after.getOrElse(window.after)), lateLabels = Some(takesLate))
    // With a shorter window, rows have no matches that they hadn't.
    val shorter = earlier.filter(_ < now.window.after)
    val bucketWidth = window.copy(after = settings.takesFor).bucketWidth(buckets)
    new LabelJoinTasks(
      LabelJoinTimes(
        watermark,
        lateWatermark,
        bucketWidth,
        // Later, the stream may have been read further, and its rows would have come too late for these rows.
        if (incompleteAfter.isEmpty) release else ReleaseSteps.EachBatch,
        exec.partitionsOfRelease,
        shorter.map(was => window.copy(after = was)),
        closing.fold(IdleTimeout.throughOfRerun(exec))(_.through),
        exec.grown,
        KeptColumns.beginsIn(exec.batchId, exec.checkpointSettings),
        incompleteAfter
      ),
      now,
      waiting
    )
  }
}

private[tailrace] final class LabelJoinTasks(
    times: LabelJoinTimes,
    settings: JoinSettings,
    waiting: WaitingLeft
) extends StoredJoinTasks {
  override def task(context: StoredJoinContext): StoredJoinTask = {
    val balance = settings.balance.map(_.after(context.store.balance))
    val batch = new LabelBatch(context, settings.copy(balance = balance), times)
    val matching = settings.strategy match {
      case _ if !settings.isGrouped => new PairedMatching(batch)
      case MatchStrategy.Lazy => new LazyMatching(batch)
      case MatchStrategy.Eager => new EagerMatching(batch)
      case MatchStrategy.Decided => new DecidedMatching(batch)
    }
    new LabelJoinTask(batch, matching)
  }

  override def leftKinds: Seq[StoreKind] = Seq(StoreKind.LeftTimeSorted, StoreKind.LeftKeySorted)
  override def rightKind: StoreKind =
    if (settings.decided) StoreKind.RightTimeSorted else StoreKind.RightKeySorted
  override def joinedKinds: Seq[StoreKind] = Seq(StoreKind.JoinedIndicator)

  override def report(store: TailraceStateStore, metric: String => SQLMetric): Unit = {
    metric(LabelMetrics.AmendableBytes) += store.bytesOf(StoreKind.LeftOut)
    if (settings.isGrouped)
      waiting.tell(store, if (settings.decided) StoreKind.LeftKeySorted else StoreKind.LeftTimeSorted)
  }
}
