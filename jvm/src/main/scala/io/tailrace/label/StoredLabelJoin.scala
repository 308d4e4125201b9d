package io.tailrace.label

import org.apache.spark.SparkContext
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.plans.{Inner, JoinType, LeftOuter}
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.tailrace.StreamingBatch

import io.tailrace.common.TailraceConf
import io.tailrace.driver.{JoinFacts, LabelFacts, NextRow}
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

  override def boundSettings: Map[String, String] = JoinCheckpoint.settingsOf(columns) ++ Map(
    "how" -> settings.output.name,
    TailraceConf.JoinStrategy.key -> strategyText,
    JoinCheckpoint.Before -> s"${settings.window.before} microseconds",
    JoinCheckpoint.After -> s"${settings.window.after} microseconds"
  ) ++ settings.hot.map("hot" -> _) ++ settings.horizons.map(JoinCheckpoint.Horizons -> _.text) ++
    Option.when(settings.exactlyOne)(JoinCheckpoint.ExactlyOne -> "true") ++
    Option.when(settings.decided)(JoinCheckpoint.Release -> Release.Decided.name)

  /** What users call `release` isn't told under two names. */
  private def strategyText: String =
    if (settings.decided) MatchStrategy.Lazy.name else settings.strategy.name

  /** With shorter steps than before, rows that were held back would be behind the watermark of what follows.
    * With longer ones that watermark would go back, and what has left there could come again.
    */
  override def settingsAddedLater: Map[String, LaterSetting] =
    settings.alsoBound.view.mapValues(LaterSetting.known(_)).toMap ++ releaseSetting ++ lateSetting

  private def releaseSetting: Option[(String, LaterSetting)] = Option.when(settings.isGrouped) {
    val initial = ReleaseSteps.default(settings.window).text
    val named = settings.release.map(_.text)
    JoinCheckpoint.ReleaseEvery -> LaterSetting(named, initial, earlier = Some(ReleaseSteps.EachBatch.text))
  }

  private def lateSetting: Option[(String, LaterSetting)] =
    Option.when(!settings.isGrouped && settings.lateLabelsWiden) {
      val named = settings.lateLabels.map(_.toString)
      JoinCheckpoint.LateLabels -> LaterSetting(named, initial = "true", earlier = Some("false"))
    }

  /** Hot keys are split by one more key column, which their error doesn't mention. */
  override def settingsThatFollow: Map[String, String] =
    Seq(TailraceConf.JoinStrategy.key, JoinCheckpoint.ReleaseEvery, JoinCheckpoint.LateLabels)
      .map(_ -> "how")
      .toMap ++
      JoinCheckpoint.settingsOf(columns).keys.map(_ -> "hot") ++
      settings.form.settingWords.follow

  /** A left row waits as long as the watermark is before the end of its window. So all right rows behind that end
    * are there, or are still to come, and the row's longer window is complete: with `before` = 0, right rows up to
    * the watermark have left. The last horizon is the window's end, and versions have been emitted by the others.
    */
  override def mayGrow: Boolean = settings.horizons.isEmpty

  /** Versions have been emitted by the windows of before. */
  override def mayShrink: Boolean = settings.form.mayShrink && settings.horizons.isEmpty

  override def settingWords: SettingWords = settings.form.settingWords

  /** Labels may be left out, and so may a sample. */
  override def mayLack(setting: String): Boolean =
    setting == KeptColumns.Setting ||
      Seq(JoinCheckpoint.OfExamples, JoinCheckpoint.Credits).exists(setting.startsWith(_))

  /** A join amends by its keys alone. Labels of examples may have further ones. */
  override def keptColumns: Option[Set[String]] =
    Option.when(settings.amendFor.nonEmpty && settings.alsoBound.nonEmpty)(columns.kept.map(_.name).toSet)

  override def newcomer(setting: String, written: Map[String, String]): Option[String] =
    settings.form.newcomer(setting, written)

  override def createMetrics(context: SparkContext): Map[String, SQLMetric] = LabelMetrics.create(context)
  override def onDriver(exec: StoredJoinExec): StoredJoinDriver = new LabelJoinDriver(settings, exec)
}

private final class LabelJoinDriver(settings: JoinSettings, exec: StoredJoinExec) extends StoredJoinDriver {
  import settings.window

  // A setting that the user leaves open is that of the checkpoint.
  private lazy val release: ReleaseSteps =
    if (!settings.isGrouped) ReleaseSteps.EachBatch
    else settings.release.getOrElse(ReleaseSteps.of(exec.checkpointSettings(JoinCheckpoint.ReleaseEvery)))

  private lazy val takesLate: Boolean = settings.lateLabels.getOrElse(
    !settings.lateLabelsWiden || exec.checkpointSettings(JoinCheckpoint.LateLabels).toBoolean
  )

  private lazy val waiting = WaitingLeft.in(exec.session.sparkContext)

  private lazy val closing = settings.closeAfterMs.map(new CloseAfter(exec, _, waiting))

  private lazy val stalls = settings.streams.map(LabelStreams.of(exec, _))

  override def hasTold: Boolean = !settings.isGrouped || waiting.now.size == exec.getStateInfo.numPartitions
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
      closeAfterMs = settings.closeAfterMs,
      closedThrough = closing.flatMap(_.closedBefore(exec.eventTimeWatermarkForEviction, window.leftExpiry))
    )
  }

  /** Rows may have expired whenever the watermark has moved, or when the query is idle. */
  override def needsAnother(watermarkMs: Long): Boolean =
    exec.eventTimeWatermarkForEviction.exists(watermarkMs > _) || closing.exists(_.needsBatch())

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
    stalls.foreach(LabelStreams.begins(exec.session, _, StreamingBatch.current(exec.session).batchId))
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
        release,
        exec.partitionsOfRelease,
        shorter.map(was => window.copy(after = was)),
        closing.fold(CloseAfter.throughOfRerun(exec))(_.through),
        exec.grown,
        KeptColumns.beginsIn(exec.batchId, exec.checkpointSettings)
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
    val batch = new LabelBatch(context, settings, times)
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
    metric(LabelMetrics.LeftOutBytes) += store.bytesOf(StoreKind.LeftOut)
    if (settings.isGrouped)
      waiting.tell(store, if (settings.decided) StoreKind.LeftKeySorted else StoreKind.LeftTimeSorted)
  }
}
