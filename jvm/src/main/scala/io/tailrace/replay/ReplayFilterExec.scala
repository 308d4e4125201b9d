package io.tailrace.replay

import java.util.Arrays

import scala.util.Try

import org.apache.hadoop.fs.Path
import org.apache.spark.TaskContext
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}
import org.apache.spark.sql.catalyst.plans.physical._
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy, UnaryExecNode}
import org.apache.spark.sql.tailrace.{DriverCall, DriverCalls, SparkPlans, StreamingBatch}
import org.apache.spark.sql.types._
import org.apache.spark.util.SerializableConfiguration

import io.tailrace.common.{Mark, MarkedRows, StepwiseRows, TailraceConf, TailraceStateException, UnsafeRows}
import io.tailrace.driver.{DriverRuns, PartitionAccumulator, ReportExec}
import io.tailrace.plan.{Columns, Obstacle, OwnColumns, TailraceNode, WriteCheck}

/** Drops replays: records at or below the high-water mark of their producer and source partition.
  *
  * {{{
  *   records, by the destination's partition, in the order of its offsets
  *     │
  *   ReplayTask ── marks before the batch (MarkCache: the last batch's, and what it has moved)
  *     │      └──> what this task has moved ──> BatchMarks on the driver ──> tailrace-replay/<name>/7.marks,
  *   new records                                                              before the last task ends
  *
  *   batch 7, marks (p, 0) -> 41:  40 41 42 43 41 44  ──>  42 43 44, and (p, 0) -> 44 for batch 8
  * }}}
  *
  * There is no state store, because it would need each row shuffled by producer. The batch's file is written
  * before Spark can take the batch for done. A batch that runs again begins with the same marks and
  * gives the same rows.
  *
  * @param metadata  one binary column, or producer id, partition and offset
  * @param order     records are judged in the order of these columns; records that agree in all but the last
  *                  must come to one task
  * @param eventTime the time that origins are forgotten by; none: the time of the batch
  * @param mark      the column `_mark`, if replays are emitted too
  * @param inOrder   whether records come in that order, so no shuffle is needed
  * @param streaming whether marks are kept; a batch DataFrame begins and ends without marks
  */
final case class ReplayFilterExec(
    metadata: Seq[Attribute],
    order: Seq[Attribute],
    eventTime: Option[Attribute],
    settings: ReplaySettings,
    mark: Option[Attribute],
    inOrder: Boolean,
    streaming: Boolean,
    child: SparkPlan
) extends UnaryExecNode {
  override def output: Seq[Attribute] = child.output ++ mark
  override def producedAttributes: AttributeSet = AttributeSet(mark)

  override def requiredChildDistribution: Seq[Distribution] =
    Seq(if (inOrder) UnspecifiedDistribution else ClusteredDistribution(order.init))
  override def requiredChildOrdering: Seq[Seq[SortOrder]] =
    Seq(if (inOrder) Nil else order.map(SortOrder(_, Ascending)))
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = child.outputOrdering

  override lazy val metrics: Map[String, SQLMetric] = Map(
    "numOutputRows" -> SQLMetrics.createMetric(sparkContext, "number of output rows"),
    "replays" -> SQLMetrics.createMetric(sparkContext, "replays"),
    "unprotected" -> SQLMetrics.createMetric(sparkContext, "rows without valid metadata"),
    "gaps" -> SQLMetrics.createMetric(sparkContext, "offsets that have not come"),
    "returned" -> SQLMetrics.createMetric(sparkContext, "forgotten origins that are back")
  )

  @transient private lazy val counter = PartitionAccumulator.registered[ReplayCounts](sparkContext)

  /** The counts of the batch, the same however often its tasks have run. */
  def counts: ReplayCounts = counter.value.values.foldLeft(ReplayCounts())(_ + _)

  override protected def doExecute(): RDD[InternalRow] = {
    val rows = child.execute()
    val batch = Option.when(streaming)(StreamingBatch.current(session))
    val run = batch.map(FilterRun.of(session, _, settings.name))
    def ordinal(a: Attribute): Int = child.output.indexWhere(_.exprId == a.exprId)
    val columns = ReplayColumns(
      metadata.map(ordinal).toArray,
      eventTime.fold(-1)(ordinal),
      order.init,
      inOrder,
      child.output
    )
    val tasks = rows.getNumPartitions
    val (moved, state) = batch.zip(run) match {
      case Some((b, r)) => begin(b, r, tasks)
      // No mark is kept, so none needs its window.
      case None => new BatchMarks(settings, new ReplayNotices, tasks, new MarkTable(0), done = None) -> None
    }
    val driver = DriverCalls.register(moved)
    rows.mapPartitionsWithIndex(new ReplayPartition(columns, settings, state, metrics, counter, driver))
  }

  private def begin(batch: StreamingBatch, run: FilterRun, tasks: Int): (BatchMarks, Option[ReplayBatch]) = {
    val hadoopConf = DriverRuns.hadoopConf(session)
    val log = new MarkLog(run.directory, hadoopConf.value.value, settings)
    val (found, marks) = marksBefore(batch.batchId, run, log)
    val forgottenBefore =
      if (settings.forgetAfterMs.isEmpty) Long.MinValue
      else settings.forgottenBefore(if (eventTime.isEmpty) batch.clockMs else marks.newestMs)
    if (forgottenBefore != Long.MinValue) {
      val forgotten = run.forget(marks, forgottenBefore, settings)
      counter.add(PartitionAccumulator.Driver -> ReplayCounts(forgotten = forgotten))
    }
    val files =
      if (found.deltas.size < ReplayFilterExec.DeltasPerSnapshot) found
      else log.snapshot(batch.batchId - 1, marks, batch.batchId - 1 - conf.minBatchesToRetain)
    // Tasks that run in the driver's process have the driver's table.
    def send(bytes: Array[Byte]) = Option.unless(sparkContext.isLocal)(sparkContext.broadcast(bytes))
    def end(after: MarkTable, tables: Seq[Array[Byte]]): Unit = run.end(files, log, after, tables)(send)
    val last = run.movedBefore(batch.batchId)
    val moved = new BatchMarks(settings, run.notices, tasks, marks, Some(end))
    moved.endIfEmpty()
    val clock = batch.clockMs
    moved -> Some(
      ReplayBatch(run.name, run.directory.toString, hadoopConf, found, last, clock, forgottenBefore)
    )
  }

  private def marksBefore(batch: Long, run: FilterRun, log: MarkLog): (MarkFiles, MarkTable) =
    try run.begin(batch, log)
    catch {
      case e: TailraceStateException
          if ReplayFilterExec.Unusable(e.getCondition) &&
            TailraceConf.ReplayBeginAnew.read(SparkPlans.setting(session, _)) =>
        val files = log.beginAnew(batch)
        files -> MarkCache.get(run.name, files, log)
    }

  override protected def withNewChildInternal(newChild: SparkPlan): ReplayFilterExec = copy(child = newChild)
}

object ReplayFilterExec {

  /** Batches between two snapshots. A starting query reads the files of at most this many. */
  private val DeltasPerSnapshot = 20

  /** Conditions after which a user may restart the filter without marks. */
  private val Unusable = Set(
    "TAILRACE_REPLAY_MARKS_INCOMPLETE",
    "TAILRACE_REPLAY_MARKS_MISSING",
    // An earlier version let two tasks of a batch judge one origin.
    "TAILRACE_REPLAY_ORIGIN_SPLIT"
  )
}

/** The settings of a micro-batch's tasks.
  *
  * @param last the marks that the previous batch has moved, for executors that have the marks before it
  */
private[replay] final case class ReplayBatch(
    filter: String,
    directory: String,
    hadoopConf: Broadcast[SerializableConfiguration],
    files: MarkFiles,
    last: Option[Broadcast[Array[Byte]]],
    clockMs: Long,
    forgottenBefore: Long
)

/** The columns that a record is judged by.
  *
  * @param metadata  ordinals, of one column or of three
  * @param eventTime ordinal, or -1
  * @param home      the columns that name the partition that it is read from
  * @param oneHome   whether all rows of a task are of one partition
  */
private[replay] final case class ReplayColumns(
    metadata: Array[Int],
    eventTime: Int,
    home: Seq[Attribute],
    oneHome: Boolean,
    all: Seq[Attribute]
)

/** One task. It extends the function type, so Spark need not clean a closure.
  *
  * @param batch  none for a batch DataFrame, which begins without marks and leaves none
  * @param driver takes the marks that the task has moved. The RDD keeps it for as long as its tasks may ask
  */
private[replay] final class ReplayPartition(
    columns: ReplayColumns,
    settings: ReplaySettings,
    batch: Option[ReplayBatch],
    metrics: Map[String, SQLMetric],
    counter: PartitionAccumulator[ReplayCounts],
    driver: DriverCall
) extends ((Int, Iterator[InternalRow]) => Iterator[InternalRow])
    with Serializable {

  override def apply(index: Int, rows: Iterator[InternalRow]): Iterator[InternalRow] = {
    val base = batch.fold(new MarkTable(settings.disorder)) { b =>
      def log = new MarkLog(new Path(b.directory), b.hadoopConf.value.value, settings)
      // It is gone if the function of foreachBatch uses a batch after the next one has begun: the file is there.
      MarkCache.get(b.filter, b.files, log, b.last.flatMap(sent => Try(sent.value).toOption))
    }
    // In a batch DataFrame nothing is forgotten, so no time matters.
    val clock = new RecordClock(columns.eventTime, batch.fold(0L)(_.clockMs), base.newestMs)
    val forgottenBefore = batch.fold(Long.MinValue)(_.forgottenBefore)
    val disorder = if (batch.isEmpty) 0 else settings.disorder
    val report = new BatchMarks.Report(index, TaskContext.get().taskAttemptId(), disorder, driver(_))
    val task = new ReplayTask(base, MetadataReader(columns.metadata), clock, forgottenBefore, report)
    val homes = new RecordHomes(columns.home, columns.all, columns.oneHome)(task.enter)
    val toUnsafe = new UnsafeRows(columns.all)
    val mark = marker()

    new StepwiseRows[InternalRow] {
      override protected def step(): InternalRow =
        if (rows.hasNext) {
          val row = toUnsafe(rows.next())
          homes.of(row)
          val isReplay = task.isReplay(row)
          if (settings.marksReplays || !isReplay) mark(row, isReplay) else null
        } else {
          end()
          task.end()
          show(index, task.counts)
          null
        }
    }
  }

  private def show(index: Int, counts: ReplayCounts): Unit = {
    counter.add(index -> counts)
    val marked = if (settings.marksReplays) counts.replays else 0L
    metrics("numOutputRows") += counts.passed + counts.unprotected + marked
    metrics("replays") += counts.replays
    metrics("unprotected") += counts.unprotected
    metrics("gaps") += counts.gaps
    metrics("returned") += counts.returned
  }

  private def marker(): (UnsafeRow, Boolean) => InternalRow =
    if (!settings.marksReplays) (row, _) => row
    else {
      val marked = new MarkedRows(columns.all)
      (row, isReplay) => if (isReplay) marked(row, Mark.Replay) else marked.ordinary(row)
    }
}

/** Judges the records of one task, in their order: against the marks that the batch begins with, and against
  * the records before them in the task. It is an error if records of an origin come from two partitions in a
  * batch: the marks of one partition don't apply to the records of the other. From batch to batch an origin
  * may move to another partition, but not to offsets below its mark.
  *
  * @param forgottenBefore origins that were last seen before this time, in ms, are judged as new
  * @param report          tells the driver, which knows the origins of other tasks
  */
final class ReplayTask(
    base: MarkTable,
    reader: MetadataReader,
    clock: RecordClock,
    forgottenBefore: Long,
    report: BatchMarks.Report
) {

  /** The marks that this task has moved. */
  val moved = new MarkTable(base.disorder)

  // The gaps that the entries of `moved` had when the batch began. Later entries had none.
  private var gapsBefore = Array.emptyLongArray

  private var home = Homes.Unknown
  private var homeInBase = Homes.Unknown

  private var passed = 0L
  private var replays = 0L
  private var unprotected = 0L
  private var returned = 0L
  private var movedOrigins = 0L
  private var fromStart = 0L

  // The last origin: records of one origin mostly come one after the other.
  private var lastPid = 0L
  private var lastPartition = -1
  private var lastEntry = -1

  def counts: ReplayCounts = {
    var total = 0L
    var entry = 0
    while (entry < moved.size) {
      val before = if (entry < gapsBefore.length) gapsBefore(entry) else 0L
      total = ReplayCounts.saturated(total, moved.gaps(entry) - before)
      entry += 1
    }
    ReplayCounts(passed, replays, unprotected, reader.doubtful, total, returned, 0, mostGaps)
  }

  private def mostGaps: Seq[OriginGaps] = {
    val withGaps = (0 until moved.size).filter(moved.gaps(_) > 0)
    ReplayCounts.most(withGaps.map(e => OriginGaps(moved.pid(e), moved.partition(e), moved.gaps(e))))
  }

  /** The records that follow are read from this partition. */
  def enter(partition: String): Unit = {
    home = moved.homes.of(partition)
    homeInBase = base.homes.find(partition)
    lastPartition = -1
  }

  /** True if the row is a replay. A row without valid metadata never is: it is unknown. */
  def isReplay(row: UnsafeRow): Boolean =
    if (!reader.read(row)) {
      unprotected += 1
      false
    } else {
      val isNew = admit(reader.pid, reader.partition, reader.offset)
      moved.see(lastEntry, clock.timeMs(row))
      if (isNew) passed += 1
      else {
        replays += 1
        if (reader.offset == 0 && moved.mark(lastEntry) > 0) fromStart += 1
      }
      !isNew
    }

  /** Must be called after the last record, before Spark can take the task for done.
    *
    * @throws io.tailrace.common.TailraceStateException TAILRACE_REPLAY_ORIGIN_SPLIT if another task has
    *                                                   records of one of its origins
    */
  def end(): Unit = report.send(
    moved,
    Seq(
      reader.doubtful -> ReplayNotices.Doubtful,
      reader.untagged -> ReplayNotices.Untagged,
      movedOrigins -> ReplayNotices.Moved,
      fromStart -> ReplayNotices.FromStart
    ).collect { case (count, notice) if count > 0 => notice.bit }.sum
  )

  private def admit(pid: Long, partition: Int, offset: Long): Boolean =
    if (pid == lastPid && partition == lastPartition) moved.admit(lastEntry, offset)
    else {
      lastEntry = moved.find(pid, partition)
      if (lastEntry < 0) {
        val before = known(pid, partition)
        if (before >= 0) begin(before, offset)
      } else if (moved.home(lastEntry) != home) {
        throw ReplayErrors.originSplit(pid, partition, nameOf(moved, lastEntry), nameOf(home))
      }
      // Set after the checks, so an error leaves no unchecked origin.
      lastPid = pid
      lastPartition = partition
      if (lastEntry >= 0) moved.admit(lastEntry, offset)
      else {
        if (base.find(pid, partition) >= 0) returned += 1
        lastEntry = moved.add(pid, partition, offset)
        moved.setHome(lastEntry, home)
        true
      }
    }

  /** Takes over the mark of an origin whose first record in this task has come, and which has had records
    * before.
    */
  private def begin(before: Int, offset: Long): Unit = {
    val isHome = base.home(before) == homeInBase && homeInBase != Homes.Unknown
    if (!isHome && base.home(before) != Homes.Unknown) {
      val mark = base.mark(before)
      if (offset <= mark && !base.isCertain(before, offset)) {
        throw ReplayErrors.originMoved(
          base.pid(before),
          base.partition(before),
          offset,
          mark,
          nameOf(base, before),
          nameOf(home)
        )
      }
      movedOrigins += 1
    }
    lastEntry = moved.append(base, before)
    if (base.gaps(before) != 0) {
      if (lastEntry >= gapsBefore.length) gapsBefore = Arrays.copyOf(gapsBefore, lastEntry * 2 + 16)
      gapsBefore(lastEntry) = base.gaps(before)
    }
    if (!isHome) moved.setHome(lastEntry, home)
  }

  private def nameOf(table: MarkTable, entry: Int): String = table.homes.name(table.home(entry)).getOrElse("")
  private def nameOf(home: Int): String = moved.homes.name(home).getOrElse("")

  /** @return the entry in `base` that the origin is judged by, or -1 */
  private def known(pid: Long, partition: Int): Int = {
    val entry = base.find(pid, partition)
    if (entry >= 0 && base.isBefore(entry, forgottenBefore)) -1 else entry
  }
}

/** The logical node of `tailrace.filter_replays`. [[ReplayFilterExec]] explains the columns. */
case class FilterReplays(
    metadata: Seq[Attribute],
    order: Seq[Attribute],
    eventTime: Option[Attribute],
    settings: ReplaySettings,
    mark: Option[Attribute],
    child: LogicalPlan
) extends UnaryNode
    with TailraceNode {
  override def operator: String = "tailrace.filter_replays"
  override def writeChecks: Seq[WriteCheck] = Seq(FilterReplays.NamesCheck)

  override def refusedInRecursion: Option[Obstacle] =
    Some(Obstacle("filter_replays", "a row that comes round would be taken for a replay"))

  override def output: Seq[Attribute] = child.output ++ mark

  override def producedAttributes: AttributeSet = AttributeSet(mark)

  override protected def withNewChildInternal(newChild: LogicalPlan): FilterReplays = copy(child = newChild)
}

object FilterReplays {

  private val NamesCheck = WriteCheck.uniqueNames("tailrace.filter_replays") { case f: FilterReplays =>
    f.settings.name
  }
}

object ReplayFilterStrategy extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case f @ FilterReplays(metadata, order, eventTime, settings, mark, child) =>
      val inOrder = KafkaOrder.isKept(child, order)
      val exec =
        ReplayFilterExec(metadata, order, eventTime, settings, mark, inOrder, f.isStreaming, planLater(child))
      ReportExec(settings.progressName, exec) { case filter: ReplayFilterExec =>
        filter.counts.toRow
      } :: Nil
    case _ => Nil
  }
}

/** Finds the columns that the arguments name, and checks what can be checked before a query runs.
  *
  * @param sameName the session's rule for names
  */
private[tailrace] final class ReplayResolution(child: LogicalPlan, sameName: (String, String) => Boolean) {
  import ReplayResolution._

  private val columns = new Columns(ReplayOptions.arguments, child.output, sameName)

  def resolve(options: ReplayOptions): LogicalPlan = {
    val settings = options.settings
    val metadata = options.metadata.zip(if (options.metadata.size == 1) OfKey else OfColumns).map {
      case (name, (argument, dataType)) => columns.find(argument, name, dataType)
    }
    val order = options.order.map(columns.find("order", _))
    order.find(a => !RowOrdering.isOrderable(a.dataType)).foreach { a =>
      throw columns.wrongType("order", a, "an orderable type")
    }
    val eventTime = options.eventTime.map(columns.find("event_time", _, TimestampType))
    if (settings.marksReplays) columns.checkAdded(Mark.Column, Columns.rename(Mark.Column))
    val mark = Option.when(settings.marksReplays)(Mark.attribute())
    OwnColumns.renewable(FilterReplays(metadata, order, eventTime, settings, mark, child))
  }
}

private object ReplayResolution {
  private val OfKey = Seq("key" -> BinaryType)
  private val OfColumns = Seq("pid" -> LongType, "partition" -> IntegerType, "offset" -> LongType)
}
