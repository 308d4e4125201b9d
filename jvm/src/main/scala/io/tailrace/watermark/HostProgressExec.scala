package io.tailrace.watermark

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

import io.tailrace.common.Mark
import io.tailrace.driver.{SparkWatermark, TellsDriver}

/** Notes for each host how far its log has been read. All rows pass.
  *
  * {{{
  *   rows ──> HostMaxima of the task ──(accumulator)──> SourceWatermark on the driver ──> LowWatermark
  *     └───> next operator
  * }}}
  *
  * It is part of Spark's generated code: the operators on both sides stay in one loop, and no row has to be
  * built for it.
  *
  * @param name of the source
  */
final case class HostProgressExec(name: String, columns: Seq[NamedExpression], child: SparkPlan)(
    // Transient: Spark sends plan nodes to executors, and a roster may be long.
    @transient val settings: ProgressSettings,
    val mark: Option[Attribute]
) extends UnaryExecNode
    with CodegenSupport
    with TellsDriver {
  private def host: NamedExpression = columns.head
  private def time: NamedExpression = columns(1)
  private def eventTime: NamedExpression = columns(2)
  private def share: Option[NamedExpression] = columns.lift(3)

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

  private def begin(): HostProgressTasks = {
    val batch = StreamingBatch.current(session)
    new HostProgressTasks(
      FutureRule(settings, batch.clockMs),
      source.lateThrough(batch.batchId),
      source.collect(batch.batchId),
      metrics
    )
  }

  override protected def doExecute(): RDD[InternalRow] = {
    val rows = child.execute()
    noteTasks(rows.getNumPartitions)
    val in = ProgressColumns(at(host), at(time), at(eventTime), share.map(at))
    rows.mapPartitionsWithIndex(new HostProgressPartition(begin(), in, child.output, mark.isDefined))
  }

  private def at(column: NamedExpression): Int = child.output.indexWhere(_.exprId == column.exprId)

  // Called when the generated code is about to run.
  override def inputRDDs(): Seq[RDD[InternalRow]] = {
    val inputs = child.asInstanceOf[CodegenSupport].inputRDDs()
    noteTasks(inputs.map(_.getNumPartitions).maxOption.getOrElse(0))
    inputs
  }

  private def noteTasks(tasks: Int): Unit = {
    val batch = StreamingBatch.current(session)
    source.noteTasks(batch.batchId, tasks)
  }

  override protected def doProduce(ctx: CodegenContext): String =
    child.asInstanceOf[CodegenSupport].produce(ctx, this)

  override def doConsume(ctx: CodegenContext, input: Seq[ExprCode], row: ExprCode): String = {
    val tasks = ctx.addReferenceObj("hostProgress", begin())
    val task =
      ctx.addMutableState(
        classOf[HostProgressTask].getName,
        "progress",
        v => s"$v = $tasks.open(partitionIndex);"
      )
    def value(column: NamedExpression): ExprCode = input(at(column))
    def or(column: NamedExpression, none: String): String =
      s"(${value(column).isNull} ? $none : ${value(column).value})"
    val isFuture = ctx.freshName("isFuture")
    val noted = share match {
      case Some(s) =>
        val arguments = s"${or(host, "null")}, ${or(time, s"${SparkWatermark.Never}L")}, " +
          or(s, s"${WatermarkStamp.WholeShare}L")
        s"boolean $isFuture = $task.stamp($arguments);"
      case None =>
        s"boolean $isFuture = !${value(time).isNull} && " +
          s"$task.read(${or(host, "null")}, ${value(time).value});"
    }
    val (declared, marked) = mark.fold(("", Option.empty[ExprCode]))(_ => markCode(ctx, isFuture))
    s"""
       |$task.pass(${value(eventTime).isNull}, ${value(eventTime).value});
       |$noted
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
