package io.tailrace.watermark

import java.io.DataOutputStream
import java.util.Arrays

import org.apache.spark.TaskContext
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode, JavaCode}
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.execution.{CodegenSupport, SparkPlan, UnaryExecNode}
import org.apache.spark.sql.tailrace.StreamingBatch
import org.apache.spark.sql.types.StringType
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.array.ByteArrayMethods
import org.apache.spark.unsafe.types.UTF8String

import io.tailrace.checkpoint.ExactBytes
import io.tailrace.common.{Mark, MarkedRows, Policy, UnsafeRows}
import io.tailrace.driver.{SparkWatermark, TellsDriver}

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

/** The greatest event time of each host that one task has read. Each row costs one search, so this is a hash
  * table in two arrays: a known host is one cell of four numbers and its name, and no object.
  *
  * {{{
  *   cells: hash, 0 for a free cell | greatest time | rows ahead of the clock | offset and length of the name
  *   names: the names' bytes, one after the other
  * }}}
  */
private[tailrace] final class HostMaxima {
  import HostMaxima._

  private var used = 0
  private var cells = new Array[Long](FirstCells * Width)
  private var names = new Array[Byte](FirstCells * 16)
  private var namesEnd = 0

  /** The number of late rows. */
  var late = 0L

  /** The minimum completeness of the stamps, in their units. */
  var share: Long = WatermarkStamp.WholeShare

  def see(host: UTF8String, time: Long): Unit = {
    val cell = cellOf(host)
    if (time > cells(cell + Time)) cells(cell + Time) = time
  }

  def seeFuture(host: UTF8String): Unit = {
    val cell = cellOf(host) // first: it may replace the array
    cells(cell + Future) += 1
  }

  private def cellOf(host: UTF8String): Int = {
    val (base, offset, length) = (host.getBaseObject, host.getBaseOffset, host.numBytes)
    val hash = hashOf(base, offset, length)
    var cell = firstOf(hash)
    while (cells(cell) != 0) {
      if (cells(cell) == hash && isName(cells(cell + Name), base, offset, length)) return cell
      cell = after(cell)
    }
    if (used * 3 >= cells.length / Width * 2) {
      grow()
      cell = firstOf(hash)
      while (cells(cell) != 0) cell = after(cell)
    }
    cells(cell) = hash
    cells(cell + Time) = SparkWatermark.Never
    // Copied: the next row uses the same memory.
    cells(cell + Name) = append(base, offset, length)
    used += 1
    cell
  }

  private def firstOf(hash: Long): Int = ((hash >>> 32).toInt * Width) & (cells.length - 1)
  private def after(cell: Int): Int = (cell + Width) & (cells.length - 1)

  private def isName(name: Long, base: AnyRef, offset: Long, length: Int): Boolean =
    name.toInt == length &&
      ByteArrayMethods.arrayEquals(base, offset, names, Platform.BYTE_ARRAY_OFFSET + (name >>> 32), length)

  private def append(base: AnyRef, offset: Long, length: Int): Long = {
    if (names.length - namesEnd < length) {
      names = Arrays.copyOf(names, Math.max(names.length * 2, Math.addExact(namesEnd, length)))
    }
    val at = namesEnd
    Platform.copyMemory(base, offset, names, Platform.BYTE_ARRAY_OFFSET + at, length)
    namesEnd += length
    at.toLong << 32 | length
  }

  private def grow(): Unit = {
    val old = cells
    cells = new Array(old.length * 2)
    // A list of the cells would take as much memory as the names.
    var from = 0
    while (from < old.length) {
      if (old(from) != 0) {
        var to = firstOf(old(from))
        while (cells(to) != 0) to = after(to)
        System.arraycopy(old, from, cells, to, Width)
      }
      from += Width
    }
  }

  private def known: Iterator[Int] = cells.indices.by(Width).iterator.filter(cells(_) != 0)

  def future: Long = known.map(cell => cells(cell + Future)).sum

  /** The bytes that the driver gets: late rows(8), completeness(8), [[NumberedTimes]], then the entries of
    * hosts without a number, and of those with rows ahead of the clock or without a time.
    *
    * @param numbers the hosts that the driver knows
    */
  def toBytes(numbers: Option[HostNumbers]): Array[Byte] = {
    val times = NumberedTimes.none(numbers.fold(0)(_.size))
    val rest = new Array[Int](used)
    var named, restBytes = 0
    known.foreach { cell =>
      val number = numberOf(cell, numbers)
      if (number >= 0) times(number) = cells(cell + Time)
      else {
        rest(named) = cell
        named += 1
        restBytes = Math.addExact(restBytes, HostEntries.FixedLength + cells(cell + Name).toInt)
      }
    }
    val numbered = used - named
    val bytes = new ExactBytes(Math.addExact(20 + NumberedTimes.length(times, numbered), restBytes))
    val out = new DataOutputStream(bytes)
    out.writeLong(late)
    out.writeLong(share)
    NumberedTimes.write(out, times, numbered)
    out.writeInt(named)
    (0 until named).foreach { i =>
      val cell = rest(i)
      val (name, time, future) = (cells(cell + Name), cells(cell + Time), cells(cell + Future))
      HostEntries.write(out, names, (name >>> 32).toInt, name.toInt, time, future)
    }
    bytes.content
  }

  private def numberOf(cell: Int, numbers: Option[HostNumbers]): Int =
    if (cells(cell + Future) > 0 || cells(cell + Time) == SparkWatermark.Never) -1
    else {
      val name = cells(cell + Name)
      numbers.fold(-1)(_.of(UTF8String.fromBytes(names, (name >>> 32).toInt, name.toInt)))
    }
}

private[watermark] object HostMaxima {

  // Both are powers of two. Below: the places of a cell's numbers.
  private val FirstCells = 64
  private val Width = 4
  private val Time = 1
  private val Future = 2
  private val Name = 3

  private val Spread = 0x9e3779b97f4a7c15L

  /** Hashes eight bytes at a time. The last eight overlap those before them. The hash is never 0. */
  private def hashOf(base: AnyRef, offset: Long, length: Int): Long = {
    var hash = length * Spread
    var i = 0
    while (i + 8 <= length) {
      hash = mixed(hash, Platform.getLong(base, offset + i))
      i += 8
    }
    if (i < length) {
      if (length >= 8) hash = mixed(hash, Platform.getLong(base, offset + length - 8))
      else
        while (i < length) {
          hash = mixed(hash, Platform.getByte(base, offset + i).toLong)
          i += 1
        }
    }
    hash | 1
  }

  private def mixed(hash: Long, word: Long): Long = {
    val product = (hash ^ word) * Spread
    product ^ (product >>> 32)
  }
}
