package io.tailrace.driver

import java.util.UUID

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode}
import org.apache.spark.sql.catalyst.expressions.{Attribute, NamedExpression}
import org.apache.spark.sql.execution.{
  CodegenSupport,
  CollectMetricsExec,
  LeafExecNode,
  SparkPlan,
  UnaryExecNode
}
import org.apache.spark.sql.tailrace._
import org.apache.spark.unsafe.types.CalendarInterval

import io.tailrace.explain.{SourceFacts, StreamFacts, WatermarkFacts}

/** A watermark that the driver computes at the end of a micro-batch, when its tasks have run. */
trait DriverWatermark {

  /** The name of its node in `explain`. */
  def nodeName: String

  /** True if it depends on the query's other watermarks. */
  def followsOthers: Boolean

  /** The watermark after a micro-batch, in milliseconds, if there is one. Spark asks on the driver before it
    * commits the micro-batch, maybe several times.
    */
  def after(batch: StreamingBatch, session: SparkSession): Option[Long]

  /** The hosts that hold it back, after a micro-batch; none if it isn't made of hosts. */
  def waits(session: SparkSession): Option[SourceFacts] = None
}

/** The watermark node of a [[DriverWatermark]]. Rows pass through it.
  *
  * It extends Spark's own watermark node, because Spark's tracker asks `eventTimeStats` of such nodes at the
  * end of a micro-batch. From there the watermark takes Spark's own way: the checkpoint, the policy of
  * several watermarks, the propagation to each operator (`adr/008`).
  *
  * @param eventTimeStats the parent's constructor registers it, so each copy needs its own
  */
final class DriverWatermarkExec(
    nodeId: UUID,
    eventTime: Attribute,
    delay: CalendarInterval,
    child: SparkPlan
)(val watermark: DriverWatermark, override val eventTimeStats: EventTimeStatsAccum)
    extends EventTimeWatermarkExec(nodeId, eventTime, delay, child)
    with PassesRows {
  override def nodeName: String = watermark.nodeName
  override protected def doExecute(): RDD[InternalRow] = child.execute()

  /** The parent has an accumulator of its own, which isn't registered and so can't be sent to executors. They
    * ask this node for its columns only: operators find the event time among them.
    */
  protected def writeReplace(): AnyRef = ColumnsOfWatermark(output)

  override protected def otherCopyArgs: Seq[AnyRef] =
    Seq(watermark, new DriverWatermarkStats(session, watermark))
  override def copy(
      nodeId: UUID,
      eventTime: Attribute,
      delay: CalendarInterval,
      child: SparkPlan
  ): DriverWatermarkExec = DriverWatermarkExec(session, nodeId, eventTime, delay, child, watermark)

  override def canEqual(other: Any): Boolean = other.isInstanceOf[DriverWatermarkExec]
  override def equals(other: Any): Boolean = other match {
    case that: DriverWatermarkExec => watermark == that.watermark && super.equals(other)
    case _ => false
  }
  override def hashCode: Int = super.hashCode
}

object DriverWatermarkExec {
  def apply(
      session: SparkSession,
      nodeId: UUID,
      eventTime: Attribute,
      delay: CalendarInterval,
      child: SparkPlan,
      watermark: DriverWatermark
  ): DriverWatermarkExec =
    new DriverWatermarkExec(nodeId, eventTime, delay, child)(
      watermark,
      new DriverWatermarkStats(session, watermark)
    )
}

/** The watermark, as the event time up to which the watermark may advance. */
private final class DriverWatermarkStats(session: SparkSession, watermark: DriverWatermark)
    extends DriverEventTimes {
  private lazy val batch: StreamingBatch = StreamingBatch.current(session)

  override protected def newestMs: Option[Long] = {
    SkippedBatch.runIfSkipped(session)
    watermark.after(batch, session)
  }

  override def copy(): EventTimeStatsAccum = new DriverWatermarkStats(session, watermark)
}

/** Executors see this in place of a [[DriverWatermarkExec]]. They never run it. */
private[tailrace] final case class ColumnsOfWatermark(output: Seq[Attribute]) extends LeafExecNode {
  override protected def doExecute(): RDD[InternalRow] =
    throw new UnsupportedOperationException("the watermark node is run on the driver")
}

/** The watermarks of a query's inputs in one run, in milliseconds. Not for several threads. */
final class InputWatermarks {
  private var inputs = Map.empty[UUID, Option[Long]]

  /** The watermark of each input after a batch; none: the input has no watermark yet.
    *
    * @param seen for each node, the watermark by the rows of the last batch; none: no row has come
    */
  def after(seen: Map[UUID, Option[Long]]): Seq[Option[Long]] = {
    seen.foreach { case (node, ms) => inputs += node -> (inputs.getOrElse(node, None) ++ ms).maxOption }
    inputs.values.toSeq
  }
}

object InputWatermarks {

  /** The watermarks by the rows of this thread's last batch, without nodes that follow other watermarks. */
  def of(session: SparkSession): Map[UUID, Option[Long]] =
    StreamingRun
      .current(session)
      .watermarkNodes
      .filter {
        case own: DriverWatermarkExec => !own.watermark.followsOthers
        case _ => true
      }
      // A DataFrame that is used twice is two nodes with one id, and each has seen its own rows.
      .groupMapReduce(_.nodeId) { node =>
        val stats = node.eventTimeStats.value
        Option.when(stats.count > 0)(stats.max - node.delayMs)
      }((one, other) => (one ++ other).maxOption)
}

/** The watermark of this thread's query after a batch, and the inputs that hold it back. */
private[tailrace] object QueryWatermark {

  /** @param nowMs the watermark in the batch of the operator in question; 0: none yet */
  def facts(session: SparkSession, nowMs: Long): WatermarkFacts = {
    val run = StreamingRun.current(session)
    val times = StreamWatermarks.current(session)
    // A DataFrame that is used twice is two nodes with one id.
    val nodes = run.watermarkNodes.distinctBy(_.nodeId).filter {
      case own: DriverWatermarkExec => !own.watermark.followsOthers
      case _ => true
    }
    WatermarkFacts(
      Option.when(nowMs > 0)(nowMs * 1000),
      run.followsLatestWatermark,
      nodes.map(node => StreamFacts(node.eventTime.name, times.get(node.nodeId).flatten.map(_ * 1000))),
      sources = nodes.collect { case own: DriverWatermarkExec => own.watermark.waits(session) }.flatten
    )
  }
}

/** Puts a row into the query's progress, under a name in `observedMetrics`. Spark asks the operator of
  * `Dataset.observe` for such rows when a batch has ended, so this extends it. The batch's rows pass
  * unchanged.
  *
  * @param name        in `observedMetrics`
  * @param expressions none: Spark makes copies of its operator with three arguments
  * @param report      makes the row out of the first node, from this one downwards, that it is defined for
  */
final class ReportExec(name: String, expressions: Seq[NamedExpression], child: SparkPlan)(
    @transient report: PartialFunction[SparkPlan, Row]
) extends CollectMetricsExec(name, expressions, child)
    with PassesRows {
  override def nodeName: String = "Report"

  override def collectedMetrics: Row = collectFirst(report).get

  // The parent would reset an accumulator that is not registered.
  override def resetMetrics(): Unit = children.foreach(_.resetMetrics())

  override protected def doExecute(): RDD[InternalRow] = child.execute()

  override protected def otherCopyArgs: Seq[AnyRef] = Seq(report)
  override def canEqual(other: Any): Boolean = other.isInstanceOf[ReportExec]
  override def equals(other: Any): Boolean = super.equals(other)
  override def hashCode: Int = super.hashCode
  override protected def withNewChildInternal(newChild: SparkPlan): ReportExec =
    new ReportExec(name, expressions, newChild)(report)
}

object ReportExec {
  def apply(name: String, child: SparkPlan)(report: PartialFunction[SparkPlan, Row]): ReportExec =
    new ReportExec(name, Nil, child)(report)
}

/** An operator that does nothing with rows. In generated code, the operators on its two sides stay in one
  * loop.
  */
trait PassesRows extends UnaryExecNode with CodegenSupport {
  override def supportCodegen: Boolean = child match {
    case producer: CodegenSupport => producer.supportCodegen
    case _ => false
  }

  override def inputRDDs(): Seq[RDD[InternalRow]] = child.asInstanceOf[CodegenSupport].inputRDDs()
  override protected def doProduce(ctx: CodegenContext): String =
    child.asInstanceOf[CodegenSupport].produce(ctx, this)
  override def doConsume(ctx: CodegenContext, input: Seq[ExprCode], row: ExprCode): String =
    consume(ctx, input)
}
