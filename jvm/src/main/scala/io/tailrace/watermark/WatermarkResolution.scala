package io.tailrace.watermark

import java.util.UUID

import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute}
import org.apache.spark.sql.catalyst.plans.logical.{EventTimeWatermark, LogicalPlan, Project}
import org.apache.spark.sql.functions.{call_function, col, concat, lit, replace}
import org.apache.spark.sql.types._
import org.apache.spark.sql.{Column, DataFrame}
import org.apache.spark.unsafe.types.CalendarInterval

import io.tailrace.common.{Arguments, JoinedNames, Mark, Policy}
import io.tailrace.plan.{Columns, OwnColumns}

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

  /** A batch DataFrame comes back as it is, as from Spark's `withWatermark`. */
  def resolve(eventTime: String, host: String, options: WatermarkOptions): LogicalPlan = {
    val settings = options.settings(arguments)
    val time = timeColumn(eventTime)
    val hosts = columns.find("host", host, StringType)
    val mark = markColumn(settings)
    if (child.isStreaming)
      watermark(settings, time, HostProgress(UUID.randomUUID, hosts, time, time, None, settings, mark, child))
    else unmarked(mark)
  }

  private def unmarked(mark: Option[Attribute]): LogicalPlan =
    if (mark.isEmpty) child
    else Project(child.output :+ Alias(Mark.None, Mark.Column)(), child)

  /** The watermark of a stream of stamped records. The columns have the right types.
    *
    * @param partition a string
    * @param stamp     the low watermark in a record's stamp
    * @param share     its completeness, in its units
    */
  def resolveStamps(
      eventTime: String,
      partition: String,
      stamp: String,
      share: String,
      options: WatermarkOptions
  ): LogicalPlan = {
    val settings = options.settings(arguments).copy(isStamped = true)
    val time = timeColumn(eventTime)
    val mark = markColumn(settings)
    val progress = HostProgress(
      UUID.randomUUID,
      columns.find("partition", partition),
      columns.find("stamp", stamp),
      time,
      Some(columns.find("stamp", share)),
      settings,
      mark,
      child
    )
    if (child.isStreaming) watermark(settings, time, progress) else unmarked(mark)
  }

  private def watermark(settings: ProgressSettings, time: Attribute, progress: HostProgress): LogicalPlan =
    EventTimeWatermark(
      progress.nodeId,
      time,
      new CalendarInterval(0, 0, settings.delayMs * 1000),
      OwnColumns.renewable(progress)
    )

  private def timeColumn(name: String): Attribute = {
    val found = columns.find("event_time", name)
    found.dataType match {
      case TimestampType => found
      // Spark supports no watermarks on them.
      case TimestampNTZType if !child.isStreaming => found
      case _ => throw columns.wrongType("event_time", found, TimestampType.sql)
    }
  }

  private def markColumn(settings: ProgressSettings): Option[Attribute] =
    Option.when(settings.futureLimitMicros.nonEmpty && settings.onFuture == Policy.Mark) {
      columns.checkAdded(Mark.Column, Columns.rename(Mark.Column))
      Mark.attribute()
    }
}

/** The columns made of a record's stamp, which exist only while the watermark is noted. */
private[tailrace] object StampColumns {
  val Partition = "__tailrace_partition"
  val Low = "__tailrace_low"
  val Share = "__tailrace_share"
  val all: Seq[String] = Seq(Partition, Low, Share)

  def check(
      plan: LogicalPlan,
      stamp: String,
      partition: Seq[String],
      sameName: (String, String) => Boolean
  ): Unit = {
    if (partition.isEmpty) throw WatermarkOptions.stamped.invalid("partition", "empty", "one column or more")
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
    def quoted(name: String) = col(s"`${name.replace("`", "``")}`")
    val parsed = call_function("parse_watermark_stamp", quoted(stamp))
    frame
      .withColumn(Partition, name(partition.map(quoted(_).cast("string"))))
      .withColumn(Low, parsed.getField("low_watermark"))
      .withColumn(
        Share,
        (parsed.getField("completeness") * lit(WatermarkStamp.WholeShare).cast("decimal(19,0)"))
          .cast("bigint")
      )
  }
}
