package io.tailrace.watermark

import java.util.UUID

import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, AttributeSet}
import org.apache.spark.sql.catalyst.plans.logical.{EventTimeWatermark, LogicalPlan, Project, UnaryNode}
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.tailrace.{QueryStart, SparkSession, StreamingBatch}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.CalendarInterval

import io.tailrace.common.{Arguments, Mark, Policy, ProgressName}
import io.tailrace.driver.{DriverWatermark, DriverWatermarkExec, ReportExec, SourceFacts, SparkWatermark}
import io.tailrace.plan.{Columns, Obstacle, OwnColumns, TailraceNode, WriteCheck}

/** One logical node of `tailrace.accurate_watermark`. The other one is Spark's watermark node with the same
  * `nodeId`, somewhere above: the optimizer may move filters and projections between them.
  *
  * @param host      a string
  * @param time      the event time, or the low watermark of a stamp: how far the host's log has been read
  * @param eventTime decides which rows are late
  * @param share     the completeness of a stamp, in its units
  * @param mark      the column `_mark`, if rows ahead of the clock are emitted marked
  */
case class HostProgress(
    nodeId: UUID,
    host: Attribute,
    time: Attribute,
    eventTime: Attribute,
    share: Option[Attribute],
    settings: ProgressSettings,
    mark: Option[Attribute],
    child: LogicalPlan
) extends UnaryNode
    with TailraceNode {
  override def operator: String = "tailrace.accurate_watermark"
  override def dropsRows: Boolean = false
  override def keepsTasks: Boolean = true
  override def refusedInRecursion: Option[Obstacle] = Some(Obstacle.Watermark)
  override def writeChecks: Seq[WriteCheck] = Seq(HostProgress.NamesCheck)

  override def output: Seq[Attribute] = child.output ++ mark
  override def producedAttributes: AttributeSet = AttributeSet(mark)
  override protected def withNewChildInternal(newChild: LogicalPlan): HostProgress = copy(child = newChild)
}

object HostProgress {

  /** Two watermarks with one name would write into one directory of the checkpoint. A server takes two
    * sources with one name for the same source, and a host that only one of them has read for read.
    */
  private object NamesCheck extends WriteCheck {
    override def apply(start: QueryStart): Unit = {
      // A DataFrame that is used twice is one source.
      val sources =
        start.plan.collect { case p: HostProgress => p.nodeId -> p.settings }.distinctBy(_._1)
      WriteCheck.unique("tailrace.accurate_watermark", sources.map(_._2.name))
      val reporting = sources.flatMap(_._2.server)
      reporting.zipWithIndex.foreach { case (one, i) =>
        if (reporting.take(i).exists(other => other.isBeside(one) && other.operator == one.operator))
          throw WatermarkErrors.operatorExists(one.operator, one.app)
      }
    }
  }
}

/** Finds the columns that the arguments name, and checks what can be checked before a query runs.
  *
  * @param sameName the session's rule for names
  */
private[tailrace] final class WatermarkResolution(
    arguments: Arguments,
    child: LogicalPlan,
    sameName: (String, String) => Boolean
) {
  private val columns = new Columns(arguments, child.output, sameName)

  def resolve(eventTime: String, host: String, options: WatermarkOptions): LogicalPlan = {
    val settings = options.settings(arguments)
    val time = timeColumn(eventTime)
    watermark(settings, columns.find("host", host, StringType), time, time, None)
  }

  /** The watermark of stamped records, which have the [[StampColumns]]. */
  def resolveStamps(eventTime: String, options: WatermarkOptions): LogicalPlan = {
    val settings = options.settings(arguments).copy(isStamped = true)
    val time = timeColumn(eventTime)
    def column(name: String) = columns.find("stamp", name)
    val (partition, low) = (column(StampColumns.Partition), column(StampColumns.Low))
    watermark(settings, partition, low, time, Some(column(StampColumns.Share)))
  }

  /** A batch DataFrame comes back as it is, as from Spark's `withWatermark`.
    *
    * @param read how far the host's log has been read
    */
  private def watermark(
      settings: ProgressSettings,
      host: Attribute,
      read: Attribute,
      time: Attribute,
      share: Option[Attribute]
  ): LogicalPlan = {
    val marks = settings.futureLimitMicros.nonEmpty && settings.onFuture == Policy.Mark
    if (marks) columns.checkAdded(Mark.Column, Columns.rename(Mark.Column))
    if (child.isStreaming) {
      val mark = Option.when(marks)(Mark.attribute())
      val progress = HostProgress(UUID.randomUUID, host, read, time, share, settings, mark, child)
      val delay = new CalendarInterval(0, 0, settings.delayMs * 1000)
      EventTimeWatermark(progress.nodeId, time, delay, OwnColumns.renewable(progress))
    } else if (marks) Project(child.output :+ Alias(Mark.None, Mark.Column)(), child)
    else child
  }

  private def timeColumn(name: String): Attribute = {
    val found = columns.find("event_time", name)
    found.dataType match {
      case TimestampType => found
      // Spark supports no watermarks on them.
      case TimestampNTZType if !child.isStreaming => found
      case _ => throw columns.wrongType("event_time", found, TimestampType.sql)
    }
  }
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
private[watermark] final case class LowWatermark(settings: ProgressSettings) extends DriverWatermark {
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

private[watermark] object LowWatermark {

  /** The settings of the watermark of a node; none if it isn't a low watermark. */
  def of(node: SparkPlan): Option[ProgressSettings] = node match {
    case own: DriverWatermarkExec =>
      Some(own.watermark).collect { case LowWatermark(settings) => settings }
    case _ => None
  }
}
