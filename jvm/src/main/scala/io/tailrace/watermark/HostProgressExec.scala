package io.tailrace.watermark

import org.apache.spark.TaskContext
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode, JavaCode}
import org.apache.spark.sql.catalyst.plans.logical.{EventTimeWatermark, LogicalPlan}
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.execution.{CodegenSupport, SparkPlan, SparkStrategy, UnaryExecNode}
import org.apache.spark.sql.tailrace.{SparkSession, StreamingBatch}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

import io.tailrace.common.{Mark, MarkedRows, Policy, ProgressName, SparkWatermark, UnsafeRows}
import io.tailrace.driver.{DriverWatermarkExec, ReportExec, TellsDriver}
import io.tailrace.explain.SourceFacts

/** Notes for each host how far its log has been read. All rows pass.
  *
  * {{{
  *   rows ──> HostMaxima of the task ──(HostAccumulator)──> SourceWatermark on the driver ──> LowWatermark
  *     └───> next operator
  * }}}
  *
  * It is part of Spark's generated code: the operators on both sides stay in one loop, and no row has to be
  * built for it.
  *
  * @param name    of the source
  * @param columns the columns of [[ProgressColumns]]
  */
final case class HostProgressExec(name: String, columns: Seq[NamedExpression], child: SparkPlan)(
    // Transient: Spark sends plan nodes to executors, and a roster may be long.
    @transient val settings: ProgressSettings,
    val mark: Option[Attribute]
) extends UnaryExecNode
    with CodegenSupport
    with TellsDriver {
  override def output: Seq[Attribute] = child.output ++ mark
  override def producedAttributes: AttributeSet = AttributeSet(mark)
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = child.outputOrdering

  override lazy val metrics: Map[String, SQLMetric] = Map(
    "numOutputRows" -> SQLMetrics.createMetric(sparkContext, "number of output rows"),
    "lateRows" -> SQLMetrics.createMetric(sparkContext, "rows behind the watermark"),
    "futureRows" -> SQLMetrics.createMetric(sparkContext, "rows ahead of the clock")
  )

  @transient private lazy val source = SourceWatermark.of(session, settings)

  def report: Row = source.metrics

  override def hasTold: Boolean = source.hasRead(StreamingBatch.current(session).batchId)

  /** @param tasks the number of the node's tasks in the batch */
  private def noteTasks(tasks: Int): Unit =
    source.noteTasks(StreamingBatch.current(session).batchId, tasks)

  private def begin(): HostProgressTasks = {
    val batch = StreamingBatch.current(session)
    new HostProgressTasks(
      FutureRule(Policy.believedThrough(settings.futureLimitMicros, batch.clockMs), settings.onFuture),
      source.lateThrough(batch.batchId),
      source.collect(batch.batchId),
      source.numbers(batch.batchId),
      metrics
    )
  }

  private def ordinals: ProgressColumns = {
    val at = columns.map(column => child.output.indexWhere(_.exprId == column.exprId))
    ProgressColumns(at.head, at(1), at(2), at.lift(3))
  }

  override protected def doExecute(): RDD[InternalRow] = {
    val rows = child.execute()
    noteTasks(rows.getNumPartitions)
    rows.mapPartitionsWithIndex(new HostProgressPartition(begin(), ordinals, child.output, mark.isDefined))
  }

  // Called when the generated code is about to run.
  override def inputRDDs(): Seq[RDD[InternalRow]] = {
    val inputs = child.asInstanceOf[CodegenSupport].inputRDDs()
    noteTasks(inputs.map(_.getNumPartitions).maxOption.getOrElse(0))
    inputs
  }

  override protected def doProduce(ctx: CodegenContext): String =
    child.asInstanceOf[CodegenSupport].produce(ctx, this)

  override def doConsume(ctx: CodegenContext, input: Seq[ExprCode], row: ExprCode): String = {
    val tasks = ctx.addReferenceObj("hostProgress", begin())
    def open(variable: String) = s"$variable = $tasks.open(partitionIndex);"
    val task = ctx.addMutableState(classOf[HostProgressTask].getName, "progress", open)
    val in = ordinals
    def or(column: Int, none: String): String = s"(${input(column).isNull} ? $none : ${input(column).value})"
    val (host, time, eventTime) = (or(in.host, "null"), input(in.time), input(in.eventTime))
    val isFuture = ctx.freshName("isFuture")
    val noted = in.share match {
      case Some(share) =>
        val (low, whole) = (or(in.time, s"${SparkWatermark.Never}L"), s"${WatermarkStamp.WholeShare}L")
        s"$task.stamp($host, $low, ${or(share, whole)})"
      case None => s"!${time.isNull} && $task.read($host, ${time.value})"
    }
    val (declared, marked) = mark.fold(("", Option.empty[ExprCode]))(_ => markCode(ctx, isFuture))
    s"""
       |$task.pass(${eventTime.isNull}, ${eventTime.value});
       |boolean $isFuture = $noted;
       |$declared
       |${consume(ctx, input ++ marked)}
     """.stripMargin
  }

  /** The column `_mark`: its declaration, and its name and null flag. */
  private def markCode(ctx: CodegenContext, isFuture: String): (String, Option[ExprCode]) = {
    val (isOrdinary, mark) = (ctx.freshName("isOrdinary"), ctx.freshName("mark"))
    val reason = ctx.addReferenceObj("futureMark", Mark.Future.text)
    val declared =
      s"boolean $isOrdinary = !$isFuture; UTF8String $mark = $isOrdinary ? null : $reason;"
    declared -> Some(ExprCode(JavaCode.isNullVariable(isOrdinary), JavaCode.variable(mark, StringType)))
  }

  override protected def otherCopyArgs: Seq[AnyRef] = Seq(settings, mark)
  override protected def withNewChildInternal(newChild: SparkPlan): HostProgressExec =
    copy(child = newChild)(settings, mark)
}

/** Keeps no state: a stream under AQE plans the same nodes again and again. */
final class HostProgressStrategy(session: SparkSession) extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case EventTimeWatermark(id, eventTime, delay, child) =>
      val own = child.collectFirst { case p: HostProgress if p.nodeId == id => LowWatermark(p.settings) }
      own.map(DriverWatermarkExec(session, id, eventTime, delay, planLater(child), _)).toSeq
    case p: HostProgress =>
      val columns = Seq(p.host, p.time, p.eventTime) ++ p.share
      val exec = HostProgressExec(p.settings.name, columns, planLater(p.child))(p.settings, p.mark)
      val name = ProgressName("watermark", p.settings.name, WatermarkOptions.Name)
      ReportExec(name, exec) { case progress: HostProgressExec => progress.report } :: Nil
    case _ => Nil
  }
}

object HostProgressStrategy extends (org.apache.spark.sql.SparkSession => SparkStrategy) {
  override def apply(session: org.apache.spark.sql.SparkSession): SparkStrategy =
    new HostProgressStrategy(session.asInstanceOf[SparkSession])
}

/** The watermark of a source: the low watermark of its hosts.
  *
  * A row exactly at the low watermark is on time, and one at Spark's watermark is late: Spark's, in whole
  * milliseconds, is the last one before ours.
  */
private[watermark] final case class LowWatermark(settings: ProgressSettings) extends WatermarkOfSource {
  override def nodeName: String = "LowWatermark"
  override def followsOthers: Boolean = false
  override def after(batch: StreamingBatch, session: SparkSession): Option[Long] = {
    val low = SourceWatermark
      .of(session, settings)
      .end(batch.batchId, QueryTopology.of(session, batch.watermarkMs, _))
    Option.when(low != SparkWatermark.Never)(SparkWatermark.before(low))
  }
  override def waits(session: SparkSession): Option[SourceFacts] =
    Some(SourceWatermark.of(session, settings).waits)
}

/** The ordinals of the columns that are read.
  *
  * @param host      the log's host, or the partition of a stamped topic
  * @param time      the event time, or the low watermark of a stamp: how far the log has been read
  * @param eventTime decides which rows are late
  * @param share     the completeness of a stamp, in its units
  */
private[watermark] final case class ProgressColumns(host: Int, time: Int, eventTime: Int, share: Option[Int])

/** The rule for rows ahead of the clock.
  *
  * @param limit the latest event time that counts, in microseconds
  */
private[watermark] final case class FutureRule(limit: Long, action: Policy)

/** Opens the tasks of a batch.
  *
  * @param lateThrough rows of this time or before are late, in microseconds
  * @param progress    sends the observations of tasks to the driver
  * @param numbers     the hosts that they send by number
  */
private[watermark] final class HostProgressTasks(
    future: FutureRule,
    lateThrough: Long,
    progress: HostAccumulator,
    numbers: Option[Broadcast[HostNumbers]],
    metrics: Map[String, SQLMetric]
) extends Serializable {

  /** Begins a task. It reports however it ends: a limit stops a task early, but has taken the rows before.
    *
    * @param partition of the node
    */
  def open(partition: Int): HostProgressTask = {
    val task = new HostProgressTask(future, lateThrough)
    val known = numbers.map(_.value)
    TaskContext.get().addTaskCompletionListener[Unit] { _ =>
      // Even without rows: the driver must know that the task has run.
      progress.add(partition -> TaskProgress(task.passed, task.maxima.toBytes(known)))
      metrics("numOutputRows") += task.passed
      metrics("lateRows") += task.maxima.late
      metrics("futureRows") += task.maxima.future
    }
    task
  }
}

/** One task. Generated code or [[HostProgressPartition]] calls it for each row. */
private[watermark] final class HostProgressTask(future: FutureRule, lateThrough: Long) {
  val maxima = new HostMaxima

  /** The number of rows. */
  var passed = 0L

  private val furthest = future.limit

  /** Must be called first for each row. */
  def pass(withoutTime: Boolean, eventTime: Long): Unit = {
    passed += 1
    if (eventTime <= lateThrough && !withoutTime) maxima.late += 1
  }

  /** Notes a row of a host.
    *
    * @param host may be null
    * @param time how far the host's log has been read, in microseconds
    * @return whether the row is ahead of the clock
    */
  def read(host: UTF8String, time: Long): Boolean =
    if (time > furthest) readFuture(host, time)
    else {
      if (host != null) maxima.see(host, time)
      false
    }

  private def readFuture(host: UTF8String, time: Long): Boolean = {
    if (host != null) {
      future.action match {
        case Policy.Clamp => maxima.see(host, future.limit)
        case Policy.Fail => throw WatermarkErrors.future(host.toString, time, future.limit)
        // The row is emitted marked and doesn't move its host.
        case _ =>
      }
      maxima.seeFuture(host)
    }
    true
  }

  /** Notes a row with a stamp. The watermark waits for partitions without a stamp.
    *
    * @param partition may be null
    * @param low       of its stamp, [[SparkWatermark.Never]] without one
    * @param share     of its stamp, the whole without one
    * @return whether the stamp is ahead of the clock
    */
  def stamp(partition: UTF8String, low: Long, share: Long): Boolean = {
    if (partition != null && share < maxima.share) maxima.share = share
    read(partition, low)
  }
}

/** One task without generated code. It extends a function type, so that Spark doesn't search it for closures.
  *
  * @param marks whether the column `_mark` says which rows are ahead of the clock
  */
private[watermark] final class HostProgressPartition(
    tasks: HostProgressTasks,
    in: ProgressColumns,
    columns: Seq[Attribute],
    marks: Boolean
) extends ((Int, Iterator[InternalRow]) => Iterator[InternalRow])
    with Serializable {

  override def apply(partition: Int, rows: Iterator[InternalRow]): Iterator[InternalRow] = {
    val task = tasks.open(partition)
    val mark = marker()
    var isAsked = false
    // Spark calls the listeners that were added last first: the input is still open. An inner join with an
    // empty broadcast table asks for no row, and the batch's rows would be lost to the watermark permanently.
    TaskContext.get().addTaskCompletionListener[Unit] { context =>
      if (!isAsked && !context.isFailed() && !context.isInterrupted()) rows.foreach(note(_, task): Unit)
    }
    new Iterator[InternalRow] {
      override def hasNext: Boolean = {
        isAsked = true
        rows.hasNext
      }
      override def next(): InternalRow = {
        isAsked = true
        val row = rows.next()
        mark(row, note(row, task))
      }
    }
  }

  private def note(row: InternalRow, task: HostProgressTask): Boolean = {
    val host = if (row.isNullAt(in.host)) null else row.getUTF8String(in.host)
    def or(column: Int, none: Long): Long = if (row.isNullAt(column)) none else row.getLong(column)
    task.pass(row.isNullAt(in.eventTime), or(in.eventTime, 0L))
    in.share match {
      case Some(share) =>
        task.stamp(host, or(in.time, SparkWatermark.Never), or(share, WatermarkStamp.WholeShare))
      case None => !row.isNullAt(in.time) && task.read(host, row.getLong(in.time))
    }
  }

  private def marker(): (InternalRow, Boolean) => InternalRow =
    if (!marks) (row, _) => row
    else {
      val toUnsafe = new UnsafeRows(columns)
      val marked = new MarkedRows(columns)
      (row, isFuture) => if (isFuture) marked(toUnsafe(row), Mark.Future) else marked.ordinary(toUnsafe(row))
    }
}
