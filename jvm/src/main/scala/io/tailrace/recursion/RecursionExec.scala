package io.tailrace.recursion

import java.util.concurrent.ThreadLocalRandom
import java.util.{Arrays, UUID}

import scala.collection.mutable.ListBuffer

import org.apache.hadoop.fs.Path
import org.apache.spark.TaskContext
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.QueryPlan
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy, UnaryExecNode}
import org.apache.spark.sql.tailrace.{
  CancellableFSDataOutputStream,
  OutputWatermark,
  SparkPlans,
  SparkSession,
  StreamingBatch
}
import org.apache.spark.sql.types.StructType
import org.apache.spark.util.{AccumulatorV2, SerializableConfiguration}

import io.tailrace.common.{SparkWatermark, StepwiseRows, TailraceConf, UnsafeRows}
import io.tailrace.driver.{
  BatchSequence,
  DriverRuns,
  DriverWatermark,
  DriverWatermarkExec,
  HeldWork,
  InputWatermarks,
  RunState,
  SkippedBatch,
  TellsDriver
}

/** Keeps no state, because a stream under AQE plans the same nodes again and again. */
final class RecursionStrategy(session: SparkSession) extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case Fixpoint(argument, body, settings, columns, results, child, clock, sizes) =>
      val input = planLater(child)
      val exec =
        FixpointExec(argument, body, settings, columns, results, clock, sizes, plan.isStreaming, input)
      exec.reporting :: Nil
    case FeedbackTap(settings, columns, times, written, child) =>
      FeedbackTapExec(settings, columns, times, written, planLater(child)).reporting :: Nil
    case EventTimeWatermark(id, eventTime, delay, child) =>
      child.collect {
        case rows: FeedbackRows if rows.nodeId == id =>
          val watermark = RecursionWatermark(rows.recursion)
          DriverWatermarkExec(session, id, eventTime, delay, planLater(child), watermark)
      }
    case rows: FeedbackRows => planLater(rows.child) :: Nil
    case rows: ArgumentRows => ArgumentRowsExec(rows.output, rows.rows) :: Nil
    case union: NarrowUnion => NarrowUnionExec(union.output, union.children.map(planLater)) :: Nil
    case _: RecursionArgument => throw RecursionErrors.argumentOutside()
    case _ => Nil
  }
}

object RecursionStrategy extends (org.apache.spark.sql.SparkSession => SparkStrategy) {
  override def apply(session: org.apache.spark.sql.SparkSession): SparkStrategy =
    new RecursionStrategy(session.asInstanceOf[SparkSession])
}

/** Applies op to its input, and to op's results again until there are none, within the micro-batch.
  *
  * {{{
  *   op needs no exchange of its argument:  FixpointRDD, all hops in the task that has the row, one job
  *   op exchanges it (a join of two large tables, repartition):  ShuffledFixpoint, one job per iteration
  * }}}
  *
  * @param argument  the id of the leaves of `body` that stand for op's argument
  * @param body      op's plan; not a child, because Spark must not run it beside the input
  * @param columns   the columns of the rows that are fed back
  * @param results   the columns that are emitted: those of `columns`, then the hop, if the user wants it
  * @param clock     the time of the query, a literal
  * @param sizes     the sizes of op's tables
  * @param streaming whether it runs in micro-batches
  */
final case class FixpointExec(
    argument: Long,
    @transient body: LogicalPlan,
    settings: RecursionSettings,
    columns: RoundColumns,
    results: Seq[Attribute],
    clock: Expression,
    @transient sizes: TableSizes,
    streaming: Boolean,
    child: SparkPlan
) extends UnaryExecNode
    with CountsHops {
  override def output: Seq[Attribute] = results
  override def producedAttributes: AttributeSet = AttributeSet(results)
  override def innerChildren: Seq[QueryPlan[_]] = Seq(body)
  override def mode: RecursionMode = RecursionMode.Fixpoint

  override protected def doExecute(): RDD[InternalRow] = {
    val rows = child.execute()
    val types = child.output
    val input = rows.mapPartitions(_.map(new UnsafeRows(types)): Iterator[InternalRow])
    val batch = Option.when(streaming)(StreamingBatch.current(session))
    val now = clock.eval() match {
      case micros: Long => micros
      case other => throw new IllegalStateException(s"the time of a query is $other")
    }
    // Other random values in each micro-batch, as Spark has it for the query's own plan.
    val seed = batch.map(_ => ThreadLocalRandom.current.nextLong())
    val broadcastBytes = TailraceConf.RecursionBroadcastBytes.read(SparkPlans.setting(session, _))
    val op = new RecursionBody(session, new OpRules(argument), body, now, seed, broadcastBytes, sizes)
    val addsDepth = results.size > columns.all.size
    val rules = new RecursionRules(settings, columns, addsDepth, conf.sessionLocalTimeZone, hopSink)
    val planned = op.inTasks(new ArgumentRDD(sparkContext, input.getNumPartitions))
    if (planned.isNarrow) new FixpointRDD(input, planned.rows, op.reads, rules)
    else {
      val most = Math.max(input.getNumPartitions, conf.numShufflePartitions)
      new ShuffledFixpoint(op, rules, new KeptHop(keep(batch), most)).run(input)
    }
  }

  /** Without micro-batches Spark's cleaner frees the rows when nothing refers to them any longer. */
  private def keep(batch: Option[StreamingBatch]): RDD[InternalRow] => RDD[InternalRow] = batch match {
    case Some(b) => KeptRows.of(session, settings.name).keep(b.batchId)
    case None => _.persist(ShuffledFixpoint.Storage)
  }

  override protected def stringArgs: Iterator[Any] =
    Iterator(s"name=${settings.name}", s"mode=${mode.name}", results)

  override protected def withNewChildInternal(newChild: SparkPlan): FixpointExec = copy(child = newChild)
}

/** Emits the results of op, and writes them for the next micro-batch, which passes them to op again.
  *
  * {{{
  *   input ──────┐
  *               ├─ op ─ FeedbackTap ──> results
  *   feedback ───┘            └──> <checkpoint>/tailrace-recursion/<name>/<batch>/, before the task ends
  *      └──────────────────────────── the next batch: FeedbackStream
  * }}}
  *
  * @param times   ordinals of the columns that watermarks are on
  * @param written the schema of the rows in the files
  */
final case class FeedbackTapExec(
    settings: RecursionSettings,
    columns: RoundColumns,
    times: Seq[Int],
    written: StructType,
    child: SparkPlan
) extends UnaryExecNode
    with CountsHops
    with HeldWork
    with TellsDriver {
  override def output: Seq[Attribute] = child.output
  override def mode: RecursionMode = RecursionMode.Feedback
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = child.outputOrdering

  private def inFlight: RowsInFlight = RowsInFlight.of(session, settings.name)
  private def batchId: Long = StreamingBatch.current(session).batchId

  override protected def doExecute(): RDD[InternalRow] = {
    val rows = child.execute()
    val batch = StreamingBatch.current(session)
    val hadoopConf = DriverRuns.hadoopConf(session)
    val directory = FeedbackLog.directory(batch.checkpointRoot, settings.name).toString
    val id = UUID.randomUUID.toString.replace("-", "")
    val oldest = new OldestTime(rows.getNumPartitions)
    sparkContext.register(oldest)
    inFlight.collect(batch.batchId, oldest)
    val log = new FeedbackLog(new Path(directory), hadoopConf.value.value)
    val name = FeedbackName(log.nextRun(batch.batchId), id, 0, rows.getNumPartitions)
    // No task would note that nothing is fed back.
    if (name.tasks == 0) log.writeEmpty(batch.batchId, name)
    val before = log.complete(batch.batchId).map(_.files.map(_._1))
    val run = FeedbackRun(directory, hadoopConf, batch.batchId, name, written, oldest, before, lateMs)
    val rules = new RecursionRules(settings, columns, addsDepth = false, conf.sessionLocalTimeZone, hopSink)
    rows.mapPartitionsWithIndex(new FeedbackTask(run, rules, times))
  }

  /** The watermark, in milliseconds, at which op's operators with state would drop a row that this batch
    * feeds back: the one that ends this batch. None if no operator would drop it.
    */
  private def lateMs: Option[Long] = {
    def isOnTheWay(operator: SparkPlan): Boolean = operator.exists {
      case own: DriverWatermarkExec => own.watermark == RecursionWatermark(settings.name)
      case _ => false
    }
    val watermarks = child.collect {
      case operator if isOnTheWay(operator) => OutputWatermark.closed(operator)
    }
    watermarks.flatten.filter(_ > 0).maxOption
  }

  override def hasTold: Boolean = inFlight.isComplete(batchId)

  override def workName: String = s"tailraceRecursion-${settings.name}"

  override def words: String =
    if (settings.name == RecursionOptions.Name) "recursion" else s"recursion ${settings.name}"

  /** None if rows have no event time. */
  override def oldestWaiting: Option[Map[Int, Option[Long]]] =
    Option.when(times.nonEmpty)(Map(0 -> inFlight.oldestOf(batchId)))

  override protected def stringArgs: Iterator[Any] = Iterator(s"name=${settings.name}", s"mode=${mode.name}")

  override protected def withNewChildInternal(newChild: SparkPlan): FeedbackTapExec = copy(child = newChild)
}

/** The values that the tasks of a micro-batch work with.
  *
  * @param name   the name of the first task's file
  * @param before the files of a complete run of this batch in an earlier start of the query
  * @param lateMs rows up to this time would be dropped in the next iteration
  */
private[recursion] final case class FeedbackRun(
    directory: String,
    hadoopConf: Broadcast[SerializableConfiguration],
    batch: Long,
    name: FeedbackName,
    columns: StructType,
    oldest: OldestTime,
    before: Option[Seq[String]],
    lateMs: Option[Long]
)

/** One task. It inherits from a function, so Spark doesn't search it for closures. */
private[recursion] final class FeedbackTask(run: FeedbackRun, rules: RecursionRules, times: Seq[Int])
    extends ((Int, Iterator[InternalRow]) => Iterator[InternalRow])
    with Serializable {

  override def apply(index: Int, rows: Iterator[InternalRow]): Iterator[InternalRow] = {
    val eventTimes = new EventTimes(rules.columns.all, times)
    run.before.filter(_ => isSkipped) match {
      case Some(files) =>
        readTimes(files.indices.filter(_ % run.name.tasks == index).map(files), eventTimes)
        run.oldest.end(index)
        rows
      case None => new FedBackRows(run, run.name.copy(task = index), rules, eventTimes, rows)
    }
  }

  /** True if the sink has the rows of an earlier run of this batch. Then that run's rows are fed back: this run
    * may give others, if op has random functions or the source has another order.
    */
  private def isSkipped: Boolean = TaskContext.get().getLocalProperty(SkippedBatch.Property) != null

  private def readTimes(files: Seq[String], eventTimes: EventTimes): Unit = {
    val reader = new FeedbackReader(files, run.hadoopConf.value.value, run.columns)
    try
      while (reader.next()) eventTimes.oldest(reader.get().asInstanceOf[UnsafeRow]).foreach(run.oldest.add(_))
    finally reader.close()
  }
}

/** The rows that a task emits. Its file is complete when the last row has been consumed. */
private[recursion] final class FedBackRows(
    run: FeedbackRun,
    name: FeedbackName,
    rules: RecursionRules,
    times: EventTimes,
    rows: Iterator[InternalRow]
) extends StepwiseRows[InternalRow] {
  private val judge = new RowJudge(rules.settings)
  private val toUnsafe = rules.toUnsafe()
  private val sample = rules.sample()
  private val depthColumn = rules.columns.depth
  private val log = new FeedbackLog(new Path(run.directory), run.hadoopConf.value.value)
  private val late = run.lateMs.fold(Long.MinValue)(_ * 1000)
  private val startedNanos = System.nanoTime

  private var file: CancellableFSDataOutputStream = _
  private val writer = {
    val place = FeedbackLog.place(log.file(run.batch, name))
    new FeedbackFile.Writer(() => open(), place, run.columns.json)
  }
  private var byDepth = new Array[Long](0)

  // The task failed, or nobody wanted the rest of its rows.
  TaskContext.get().addTaskCompletionListener[Unit] { _ => if (!hasEnded && file != null) file.cancel() }

  private def open(): CancellableFSDataOutputStream = {
    file = log.create(run.batch, name)
    file
  }

  override protected def step(): InternalRow =
    if (rows.hasNext) judged(toUnsafe(rows.next()))
    else {
      finish()
      null
    }

  /** @return the row as it is emitted; null if it doesn't */
  private def judged(row: UnsafeRow): InternalRow = {
    val depth = depthColumn.fold(1)(row.getInt)
    val verdict = judge.judge(depth, rules.closesCycle(row))
    if (verdict.isError) throw rules.error(verdict, depth, row, tooDeep(depth, row))
    if (verdict.isFedBack) {
      writer.add(row.getSizeInBytes)(row.writeToStream(_, null))
      times.oldest(row).foreach { time =>
        if (time <= late)
          throw RecursionErrors.late(rules.settings.name, time, run.lateMs.get, sample.keys(row))
        run.oldest.add(time)
      }
    }
    if (!verdict.isReturned) null
    else {
      count(depth)
      row
    }
  }

  private def tooDeep(depth: Int, row: UnsafeRow): Throwable =
    RecursionErrors.tooDeep(depth - 1, judge.returned + 1, Seq(sample.keys(row)))

  private def count(depth: Int): Unit = {
    if (byDepth.length < depth) byDepth = Arrays.copyOf(byDepth, depth)
    byDepth(depth - 1) += 1
  }

  private def finish(): Unit = {
    writer.end()
    if (file == null) log.writeEmpty(run.batch, name) else log.close(file, run.batch, name)
    run.oldest.end(name.task)
    end()
    val nanos = System.nanoTime - startedNanos
    val hops = byDepth.toVector.map(rows => Hop(rows, if (rows > 0) nanos else 0))
    rules.sink.report(name.task, HopCounts(hops, writer.rows, judge.stopped, judge.cycles))
  }
}

/** Keeps on the driver, for one run of a query, the oldest row in flight, and the query's other watermarks. Spark
  * makes a new plan for each batch, so a plan can't keep them.
  */
private[recursion] final class RowsInFlight {
  private val batches = new BatchSequence[ListBuffer[OldestTime]]((_, _) => ListBuffer.empty)
  private val inputs = new InputWatermarks

  /** Takes the event times that a micro-batch feeds back. With a DataFrame that is used twice there are two.
    */
  def collect(batch: Long, times: OldestTime): Unit = synchronized { batches.at(batch) += times }

  /** True if all tasks of a batch have written their files. */
  def isComplete(finished: Long): Boolean = synchronized {
    batches.of(finished).exists(_.exists(_.isComplete))
  }

  /** The watermark after a batch, in milliseconds.
    *
    * @param seen the watermark of each input by the rows of the batch, if there were any
    */
  def watermark(finished: Long, seen: Map[UUID, Option[Long]]): Option[Long] = synchronized {
    HeldWatermark.after(inputs.after(seen), oldestOf(finished))
  }

  /** The oldest event time that a batch has fed back, in microseconds. */
  def oldestOf(finished: Long): Option[Long] = synchronized {
    batches.of(finished).flatMap(_.flatMap(_.value).minOption)
  }
}

private[recursion] object RowsInFlight {
  private val all = new RunState[RowsInFlight]

  /** The rows in flight of the run that this thread plans or executes. */
  def of(session: SparkSession, recursion: String): RowsInFlight =
    all.of(session, recursion)(new RowsInFlight)
}

/** The minimum event time that tasks have seen, in microseconds, and the tasks that have ended: a sink may run
  * a batch's tasks several times.
  *
  * @param tasks the number of tasks
  */
private[recursion] final class OldestTime(tasks: Int) extends AccumulatorV2[Long, Option[Long]] {
  private var least = Long.MaxValue
  private var ended = Set.empty[Int]

  def isComplete: Boolean = ended.size == tasks

  /** Called in a task that has seen all of its rows. */
  def end(task: Int): Unit = ended += task

  override def isZero: Boolean = least == Long.MaxValue && ended.isEmpty
  override def reset(): Unit = {
    least = Long.MaxValue
    ended = Set.empty
  }
  override def add(micros: Long): Unit = least = Math.min(least, micros)
  override def merge(other: AccumulatorV2[Long, Option[Long]]): Unit = other match {
    case times: OldestTime =>
      least = Math.min(least, times.least)
      ended ++= times.ended
    case _ => throw new IllegalArgumentException(s"not the times of a task: $other")
  }
  override def value: Option[Long] = Option.when(least != Long.MaxValue)(least)

  override def copy(): OldestTime = {
    val same = new OldestTime(tasks)
    same.least = least
    same.ended = ended
    same
  }
}

/** The watermark of the rows that are fed back: the minimum of the query's other watermarks, but before the
  * rows in flight. Spark takes the minimum of all watermarks.
  */
private[recursion] final case class RecursionWatermark(recursion: String) extends DriverWatermark {
  override def nodeName: String = "HeldWatermark"
  override def followsOthers: Boolean = true
  override def after(batch: StreamingBatch, session: SparkSession): Option[Long] =
    RowsInFlight.of(session, recursion).watermark(batch.batchId, InputWatermarks.of(session))
}

/** The event times of a row: the columns that a watermark is on, timestamps or windows.
  *
  * @param ordinals of those columns
  */
private[recursion] final class EventTimes(columns: Seq[Attribute], ordinals: Seq[Int]) {
  private val places = ordinals.toArray
  private val windows = places.map { i =>
    columns(i).dataType match {
      case window: StructType => window.length
      case _ => 0
    }
  }

  /** The oldest of them, in microseconds. A window's time is its end: it is late when that is late. */
  def oldest(row: UnsafeRow): Option[Long] = {
    var least = Long.MaxValue
    var i = 0
    while (i < places.length) {
      if (!row.isNullAt(places(i))) {
        val time =
          if (windows(i) == 0) row.getLong(places(i)) else row.getStruct(places(i), windows(i)).getLong(1)
        least = Math.min(least, time)
      }
      i += 1
    }
    if (least == Long.MaxValue) None else Some(least)
  }
}

/** The watermark of a query with rows in flight: a row that is on time must not become late by being fed back.
  *
  * {{{
  *   the inputs' watermark 12:30, the oldest row in flight 12:10  ->  just before 12:10
  *   the inputs' watermark 12:30, nothing in flight               ->  12:30
  * }}}
  */
object HeldWatermark {

  /** @param inputs         the watermarks of all inputs, in milliseconds; without one the watermark waits
    * @param inFlightMicros the oldest event time in flight
    * @return the last whole millisecond at which no row is late; none: no watermark yet
    */
  def after(inputs: Seq[Option[Long]], inFlightMicros: Option[Long]): Option[Long] =
    if (inputs.isEmpty || inputs.exists(_.isEmpty)) None
    else Some((inputs.flatten ++ inFlightMicros.map(SparkWatermark.before)).min).filter(_ > 0)
}
