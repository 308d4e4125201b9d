package io.tailrace.sync

import scala.jdk.CollectionConverters._

import org.apache.spark.SparkContext
import org.apache.spark.internal.Logging
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.plans.{JoinType, LeftOuter}
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.tailrace.{
  EventTimeWatermarkExec,
  StateStoreWriter,
  StreamInputs,
  StreamingBatch,
  StreamingPlan,
  StreamingRun
}
import org.apache.spark.sql.types.{ArrayType, MapType, StructType}
import org.apache.spark.util.CollectionAccumulator

import io.tailrace.common.{Durations, Errors, Mark, Side, TailraceAnalysisException}
import io.tailrace.driver.DriverWatermarkExec
import io.tailrace.explain.{JoinFacts, NextRow, SyncFacts}
import io.tailrace.join._
import io.tailrace.plan.{Columns, Obstacle, OwnColumns, WriteCheck}
import io.tailrace.state.{StoreKind, TailraceStateStore}

/** The logical node of `tailrace.sync_join`, above a [[SyncProgress]] on each side.
  *
  * @param paired the right columns but the keys, under names of their own
  * @param added  the column `_mark`, if duplicates or rows ahead of the clock are emitted marked
  */
case class SyncJoin(
    left: LogicalPlan,
    right: LogicalPlan,
    leftKeys: Seq[Attribute],
    rightKeys: Seq[Attribute],
    leftTime: Attribute,
    rightTime: Attribute,
    settings: SyncSettings,
    paired: Seq[Attribute],
    added: Seq[Attribute]
) extends JoinNode {
  override def operator: String = "tailrace.sync_join"
  override def idleTimeoutMs: Option[Long] = settings.idleTimeoutMs
  override def holdsRows: Boolean = true
  override def description: String = "a tailrace.sync_join"
  override def rightTimes: Seq[(Attribute, Attribute)] = Nil
  override def writeChecks: Seq[WriteCheck] =
    super.writeChecks ++ Seq(SyncJoin.NamesCheck) ++ settings.idleTimeoutMs.map(_ => IdleTimeout.Check)

  override def refusedInRecursion: Option[Obstacle] = Some(
    Obstacle("sync_join", "it waits for partitions of its inputs, and a row that comes round is of none")
  )

  override def rightComesOutAlone: Boolean = settings.rightComesOutAlone

  override protected def withNewChildrenInternal(newLeft: LogicalPlan, newRight: LogicalPlan): SyncJoin =
    copy(left = newLeft, right = newRight)
}

object SyncJoin {

  private val NamesCheck = WriteCheck.uniqueNames("tailrace.sync_join") { case join: SyncJoin =>
    join.settings.name
  }

  /** A right column in the result: no event time, as a right row may be older than left ones that wait. */
  def paired(column: Attribute, name: String): Attribute = {
    val own = OneEventTime.lacking(OneEventTime.unmarked(column))
    AttributeReference(name, own.dataType, own.nullable, own.metadata)()
  }
}

/** Keeps no state: a stream under AQE plans the same node again and again. */
object SyncJoinStrategy extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case join: SyncJoin =>
      val stored = StoredSyncJoin(join.columns, join.settings)
      StoredJoinExec(stored, join.output, planLater(join.left), planLater(join.right)) :: Nil
    case _ => Nil
  }
}

/** Finds the columns that the arguments name, and renames right columns that the left side has, too.
  *
  * @param sides    with keys of equal types
  * @param sameName the session's rule for names, case-insensitive by default
  */
private[tailrace] final class SyncResolution(sides: JoinSides, sameName: (String, String) => Boolean) {

  def resolve(on: Seq[(String, String)], options: SyncOptions): LogicalPlan = {
    Side.values.foreach { side =>
      if (!sides.plan(side).isStreaming) throw SyncErrors.notStreaming(side)
    }
    val (leftKeys, rightKeys) = sides.keys(on)
    val (leftTime, rightTime) = sides.times(options.leftTime, options.rightTime)
    val leftPartition = partition(Side.Left, options.leftPartition)
    val rightPartition = partition(Side.Right, options.rightPartition)
    val chosen = options.settings.copy(
      leftPartition = leftPartition.map(_.name),
      rightPartition = rightPartition.map(_.name)
    )
    val settings = chosen.copy(unlimited = Side.values.flatMap { side =>
      HeldBackSources.obstacle(sides.plan(side), chosen).map(side -> _)
    })
    if (settings.asksForMaxBuffered) settings.unlimited.foreach { case (side, source) =>
      throw SyncErrors.maxBufferedUnsupported(side, source)
    }
    val leftSide = progress(Side.Left, leftPartition, leftTime, settings)
    val rightSide = progress(Side.Right, rightPartition, rightTime, settings)
    val names = newNames(rightKeys, options.suffix)
    val payload = JoinColumns.payload(sides.right.output, rightKeys)
    val join = SyncJoin(
      Synced.of(leftSide, settings),
      rightSide,
      leftKeys,
      rightKeys,
      leftTime,
      rightTime,
      settings,
      payload.map(a => SyncJoin.paired(a, names.getOrElse(a.exprId, a.name))),
      mark(settings, names.values)
    )
    OwnColumns.renewable(join)
  }

  private def progress(
      side: Side,
      columns: Seq[Attribute],
      time: Attribute,
      settings: SyncSettings
  ): LogicalPlan = {
    val plan = sides.plan(side)
    val isLimited = settings.maxBuffered.isDefined && !settings.unlimited.exists(_._1 == side)
    val read = if (isLimited) HeldBackSources.wrap(plan, side, settings) else plan
    if (KafkaPartition.isOf(columns.map(_.name)))
      SyncResolution.belowFilters(read, columns :+ time)(SyncProgress(side, columns, time, settings, _))
    else SyncProgress(side, columns, time, settings, read)
  }

  /** By default, Kafka's columns that the side has. */
  private def partition(side: Side, names: Seq[String]): Seq[Attribute] = {
    val argument = s"${side}_partition"
    val wanted =
      if (names.nonEmpty) names else KafkaPartition.Columns.filter(sides.columns(side).has)
    if (names.isEmpty && !wanted.contains("partition"))
      throw SyncErrors.partitionMissing(side, argument, sides.plan(side).output.map(_.name))
    val found = wanted.map(sides.columns(side).find(argument, _))
    found.foreach { a =>
      a.dataType match {
        case _: ArrayType | _: MapType | _: StructType =>
          throw sides
            .columns(side)
            .wrongType(argument, a, "a simple type, as Kafka's `topic` and `partition`")
        case _ =>
      }
    }
    found
  }

  /** The new names of right columns whose names the left side has, too, as often `created`. */
  private def newNames(keys: Seq[Attribute], suffix: String): Map[ExprId, String] = {
    def isLeft(name: String) = sides.left.output.exists(a => sameName(a.name, name))
    val clashing = JoinColumns.payload(sides.right.output, keys).filter(a => isLeft(a.name))
    clashing.map { a =>
      val name = s"${a.name}$suffix"
      if (isLeft(name)) throw clash(name, Side.Left)
      if (sides.columns(Side.Right).has(name)) throw clash(name, Side.Right)
      a.exprId -> name
    }.toMap
  }

  /** The column that marks duplicates and rows ahead of the clock, if some are emitted marked. */
  private def mark(settings: SyncSettings, renamed: Iterable[String]): Seq[Attribute] =
    Option
      .when(settings.marks) {
        val cure = Columns.rename(Mark.Column)
        Side.values.foreach(side => sides.columns(side).checkAdded(Mark.Column, cure))
        renamed.find(sameName(_, Mark.Column)).foreach(name => throw clash(name, Side.Right))
        Mark.attribute()
      }
      .toSeq

  private def clash(column: String, side: Side): TailraceAnalysisException =
    Errors.columnExists(
      SyncOptions.arguments.call,
      column,
      s"the $side DataFrame",
      "Rename it, or choose another `suffix` for right columns that the left side has, too."
    )
}

private object SyncResolution {

  /** Rows that the user filters out count, too: a partition whose rows are all filtered is as far as they
    * were. So progress is noted below the lowest filter that has all columns below it. Files and tables
    * filter by themselves; their filters stay below.
    */
  private def belowFilters(plan: LogicalPlan, columns: Seq[Attribute])(
      progress: LogicalPlan => LogicalPlan
  ): LogicalPlan = {
    def has(p: LogicalPlan): Boolean = columns.forall(p.outputSet.contains)
    def isFiltered(p: LogicalPlan): Boolean = p match {
      case f: Filter => has(f.child)
      case other: UnaryNode => passes(other) && isFiltered(other.child)
      case _ => false
    }
    def passes(node: UnaryNode): Boolean = has(node.child) && (node match {
      case _: Project | _: Filter | _: SubqueryAlias | _: EventTimeWatermark => true
      case _ => false
    })
    def below(p: LogicalPlan): LogicalPlan = p match {
      case node: UnaryNode if isFiltered(node) => node.withNewChildren(Seq(below(node.child)))
      case other => progress(other)
    }
    below(plan)
  }
}

/** The synced join of two streams. Per partition and micro-batch:
  *
  * {{{
  *   left child ──┐ shuffled by key                     ┌─> emitted rows
  *                ├──> SyncJoinTask ── TailraceStateStore┤
  *   right child ─┘ shuffled by key                     └─> commit: next version of the partition's state
  *                        └ SyncRun.times: the times that the batch is judged by
  * }}}
  *
  * An example, sync_delay 5 seconds:
  *
  * {{{
  *   batch 1   left (A, 12:00:00), right (A, 12:00:01)     right partitions read up to 12:00:04 and 12:00:06
  *   batch 2   nothing is released: the slowest, less 5 seconds, is at 11:59:59; it then reaches 12:00:10
  *   batch 3   release time 12:00:05: (A, 12:00:00, 12:00:01) is emitted
  * }}}
  */
final case class StoredSyncJoin(columns: JoinColumns, settings: SyncSettings) extends StoredJoin {
  override def nodeName: String = "TailraceSyncJoin"
  override def operatorName: String = JoinCheckpoint.SyncJoin
  override def joinType: JoinType = LeftOuter
  override def words(keys: String): String =
    if (settings.name == SyncOptions.Name) s"sync join on $keys" else s"sync join ${settings.name} on $keys"
  override def explain: String =
    s"$nodeName ${settings.name}, ${columns.keysText}, sync_delay=${settings.syncDelay} us, " +
      s"window=${settings.window} us, on_stall=${settings.onStall.name}" +
      (if (settings.oneToOne) ", one_to_one=true" else "") +
      settings.idleTimeoutMs.fold("")(ms => s", idle_timeout=${Durations.text(ms * 1000)}")

  /** Delay, one_to_one and stall policies may change: they decide when rows are emitted, not what the state means.
    * Without the partition columns the join would wait for partitions that nobody names any more.
    */
  override def pinned(columns: JoinColumns): PinnedSettings = PinnedSettings(
    PinnedSettings.ofColumns(columns) ++ Seq(
      PinnedSetting.fixed(JoinCheckpoint.How, StoredSyncJoin.How),
      PinnedSetting.duration("window", settings.window),
      partition("left_partition", settings.leftPartition),
      partition("right_partition", settings.rightPartition)
    )
  )

  private def partition(name: String, columns: Seq[String]): PinnedSetting =
    PinnedSetting.fixed(name, columns.mkString(", ")).copy(missing = MissingSetting.Unknown())

  override def createMetrics(context: SparkContext): Map[String, SQLMetric] = SyncMetrics.create(context)
  override def onDriver(exec: PlannedJoin): StoredJoinDriver = new SyncJoinDriver(settings, exec)
}

object StoredSyncJoin {

  /** Distinguishes its checkpoints from those of a label join. It never changes. */
  private val How = "sync"
}

private[sync] final class SyncJoinDriver(settings: SyncSettings, exec: PlannedJoin)
    extends StoredJoinDriver
    with Logging {
  import exec.session

  private lazy val batch: StreamingBatch = StreamingBatch.current(session)
  private lazy val run: SyncRun = SyncRun.of(session, settings)
  private lazy val times: SyncTimes = run.times(batch.batchId)
  private lazy val held = run.held(batch.batchId)
  private lazy val flush = settings.idleTimeoutMs.map { limit =>
    new IdleFlush(session, SyncRun.work(settings), limit, flushThrough)
  }

  override def hasTold: Boolean = heldNow.size == exec.partitions

  private def heldNow: Map[Int, SyncHeld] = held.value.asScala.map(one => one.partition -> one).toMap

  /** A batch without data is worth running if the next release or expiry takes a row out of the state, or if
    * operators downstream close something by the rows that this batch has released.
    */
  override def needsAnother(watermarkMs: Long): Boolean = {
    val another =
      takesOut(run.next) || run.needsBatch || isFollowed && closesMore(watermarkMs) ||
        flush.exists(_.needsBatch())
    // Spark asks when it knows the input of the next batch.
    if (!another && StreamingRun.current(session).endsByItself && !StreamInputs.all(session).hasNew)
      tellWhatIsHeld()
    another
  }

  /** Left rows up to this time are flushed: all that wait. Where right rows are emitted, too, they are as if the left
    * side had been read past the last row that they could join. Rows ahead of the clock wait for their time.
    */
  private def flushThrough: Option[Long] = {
    val rows = heldNow.values
    val rights = if (settings.emitsUnmatchedRight) rows.flatMap(_.newestRight) else Nil
    val newest = rows.flatMap(_.newestLeft) ++ rights.map(SyncRules.flushesRight(_, settings))
    val believed = settings.believedThrough(StreamingRun.current(session).clock.wallMs)
    newest.maxOption.map(Math.min(_, believed)).filter(_ > SyncRules.releasedThrough(run.next))
  }

  private def tellWhatIsHeld(): Unit = {
    val left = heldNow.values.map(_.left).sum
    val right = heldNow.values.map(_.right).sum
    if (left > 0) {
      logWarning(
        s"TAILRACE_SYNC_HELD: the run ends, and the join '${settings.name}' holds $left left rows and " +
          s"$right right ones: they come out in a later run, when the right side has been read past them"
      )
    }
  }

  private def takesOut(next: SyncTimes): Boolean = {
    val released = SyncRules.releasedThrough(next)
    val expired = SyncRules.rightExpiry(next, settings)
    val isFurther = released > SyncRules.releasedThrough(times) ||
      expired > SyncRules.rightExpiry(times, settings)
    isFurther && heldNow.values.exists { partition =>
      partition.oldestLeft.exists(_ <= released) || partition.oldestRight.exists(_ <= expired)
    }
  }

  /** Left rows that are emitted later are at the release time or after it. Spark asks for the batch before this
    * one too, after a restart: the same holds for both. Without a watermark below there is
    * none here either, and the user may set one after the join.
    */
  override def outputWatermark(inputWatermarkMs: Long): Option[Long] =
    Option.when(hasWatermark)(watermarkBehind(inputWatermarkMs, run.timesBefore(batch.batchId)))

  private def watermarkBehind(inputWatermarkMs: Long, before: SyncTimes): Long =
    Math.max(0L, Math.min(inputWatermarkMs, Math.floorDiv(SyncRules.releasedThrough(before), 1000L)))

  /** True if the output watermark of the next batch is further than this one's. */
  private def closesMore(watermarkMs: Long): Boolean = hasWatermark &&
    watermarkBehind(watermarkMs, times) >
    exec.eventTimeWatermarkForEviction.fold(0L)(watermarkBehind(_, run.timesBefore(batch.batchId)))

  /** True if an operator downstream follows a watermark. */
  private def isFollowed: Boolean = {
    val (plan, own) = (StreamingBatch.running(session).plan, exec.physicalPlan)
    StreamingPlan.nodes(plan).exists {
      case node: StateStoreWriter => (node ne own) && StreamingPlan.nodes(node).exists(_ eq own)
      case _ => false
    }
  }

  private def hasWatermark: Boolean = StreamingPlan.nodes(exec.physicalPlan).exists {
    case own: DriverWatermarkExec => !own.watermark.followsOthers
    case node => node.isInstanceOf[EventTimeWatermarkExec]
  }

  override def oldestWaiting: Option[Map[Int, Option[Long]]] =
    Some(heldNow.map { case (partition, rows) => partition -> rows.oldestLeft })

  override def waits: JoinFacts = {
    val oldest = heldNow.collect { case (partition, SyncHeld(_, _, _, Some(time), _, _, _)) =>
      time -> partition
    }.minOption
    SyncFacts(
      SyncWaits.released(run.next),
      heldNow.values.map(_.left).sum,
      heldNow.values.map(_.right).sum,
      oldest.map { case (time, partition) =>
        NextRow(time, isBound = true, partition, key = None, Some(SyncWaits.needs(time, settings)))
      },
      run.sides
    )
  }

  override def tasks: StoredJoinTasks = {
    flush.foreach(_.begin())
    val byProgress = run.timesByProgress(batch.batchId)
    new SyncJoinTasks(settings, times, byProgress, settings.joinedThrough(batch.clockMs), held)
  }
}

private[sync] final class SyncJoinTasks(
    settings: SyncSettings,
    times: SyncTimes,
    byProgress: SyncTimes,
    joinedThrough: Long,
    held: CollectionAccumulator[SyncHeld]
) extends StoredJoinTasks {
  override def task(context: StoredJoinContext): StoredJoinTask =
    new SyncJoinTask(context, settings, times, joinedThrough, SyncRules.releasedThrough(byProgress))

  override def leftKinds: Seq[StoreKind] = Seq(StoreKind.HeldLeft)
  override def rightKind: StoreKind = StoreKind.HeldRight
  override def joinedKinds: Seq[StoreKind] = Seq(StoreKind.JoinedRight, StoreKind.JoinedLeft)

  override def report(store: TailraceStateStore, metric: String => SQLMetric): Unit = {
    val now = SyncJoinTasks.heldIn(store)
    metric(SyncMetrics.BufferedLeft) += now.left
    metric(SyncMetrics.BufferedRight) += now.right
    held.add(now)
  }
}

private[sync] object SyncJoinTasks {

  /** The rows that a store holds. Its oldest row may be newer than this value: only the files have it. */
  def heldIn(store: TailraceStateStore): SyncHeld = {
    def rows(kind: StoreKind): Long = store.sectionsOf(kind).map(_.section.liveRows).sum
    def living(kind: StoreKind) = store.sectionsOf(kind).map(_.section).filter(_.liveRows > 0)
    def oldest(kind: StoreKind): Option[Long] = living(kind).map(store.expiry.notBefore).minOption
    def newest(kind: StoreKind): Option[Long] = living(kind).map(_.maxTime).maxOption
    SyncHeld(
      store.id.partitionId,
      rows(StoreKind.HeldLeft),
      rows(StoreKind.HeldRight),
      oldest(StoreKind.HeldLeft),
      oldest(StoreKind.HeldRight),
      newest(StoreKind.HeldLeft),
      newest(StoreKind.HeldRight)
    )
  }
}
