package io.tailrace.watermark

import java.util.UUID

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{EventTimeWatermark, LogicalPlan, Project, UnaryNode}
import org.apache.spark.sql.functions.{call_function, concat, lit, replace}
import org.apache.spark.sql.tailrace.QueryStart
import org.apache.spark.sql.types._
import org.apache.spark.sql.{Column, DataFrame}
import org.apache.spark.unsafe.types.CalendarInterval

import io.tailrace.common.{Arguments, JoinedNames, Mark, OwnNames, Policy}
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

/** The columns made of a record's stamp, which exist only while the watermark is noted. */
private[tailrace] object StampColumns {
  private[watermark] val Partition = OwnNames.of("partition")
  private[watermark] val Low = OwnNames.of("low")
  private[watermark] val Share = OwnNames.of("share")
  val all: Seq[String] = Seq(Partition, Low, Share)

  def check(
      plan: LogicalPlan,
      stamp: String,
      partition: Seq[String],
      sameName: (String, String) => Boolean
  ): Unit = {
    if (partition.isEmpty) throw WatermarkOptions.stamped.invalid("partition", "", "one column or more")
    val columns = new Columns(WatermarkOptions.stamped, plan.output, sameName)
    partition.foreach(columns.find("partition", _))
    columns.find("stamp", stamp, BinaryType): Unit
  }

  /** The values joined by "-". In all values but the first, "-" is written %2D and "%" is written %25, so
    * that no two partitions share a name. Null if a value is null.
    */
  private def name(values: Seq[Column]): Column = {
    val others = values.tail.map { value =>
      JoinedNames.Escapes.foldLeft(value) { case (text, (from, to)) => replace(text, lit(from), lit(to)) }
    }
    concat(values.head +: others.flatMap(Seq(lit(JoinedNames.Separator), _)): _*)
  }

  def add(frame: DataFrame, stamp: String, partition: Seq[String]): DataFrame = {
    val parsed = call_function("parse_watermark_stamp", Columns.named(stamp))
    val units = lit(WatermarkStamp.WholeShare).cast("decimal(19,0)")
    frame
      .withColumn(Partition, name(partition.map(Columns.named(_).cast("string"))))
      .withColumn(Low, parsed.getField("low_watermark"))
      .withColumn(Share, (parsed.getField("completeness") * units).cast("bigint"))
  }
}
