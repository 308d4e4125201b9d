package io.tailrace.watermark

import java.util.UUID

import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, AttributeReference, Literal}
import org.apache.spark.sql.catalyst.plans.logical.{EventTimeWatermark, LogicalPlan, Project}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.CalendarInterval

import io.tailrace.common.{Errors, OnFuture}
import io.tailrace.plan.OwnColumns

/** Finds the columns that the user named and checks all that can be checked before a query runs.
  *
  * @param sameName the session's rule for names
  */
private[tailrace] final class WatermarkResolution(child: LogicalPlan, sameName: (String, String) => Boolean) {

  /** On a batch frame there is no watermark: it comes back as it is, as from Spark's `withWatermark`. */
  def resolve(eventTime: String, host: String, options: WatermarkOptions): LogicalPlan = {
    val settings = options.settings
    val time = timeColumn(eventTime)
    val hosts = column("host", host)
    if (hosts.dataType != StringType) {
      throw Errors.watermarkColumnType("host", hosts.name, hosts.dataType.sql, "STRING")
    }
    val flag = flagColumn(settings)
    if (child.isStreaming)
      watermark(settings, time, HostProgress(UUID.randomUUID, hosts, time, time, None, settings, flag, child))
    else unmarked(flag)
  }

  private def unmarked(flag: Option[Attribute]): LogicalPlan =
    if (flag.isEmpty) child
    else Project(child.output :+ Alias(Literal(false), ProgressSettings.FlagColumn)(), child)

  /** The watermark of a stream whose records are stamped: of columns that are of the right types.
    *
    * @param partition a string
    * @param stamp     the low watermark of a record's stamp
    * @param share     its completeness, in its units
    */
  def resolveStamps(
      eventTime: String,
      partition: String,
      stamp: String,
      share: String,
      options: WatermarkOptions
  ): LogicalPlan = {
    val settings = options.settings.copy(isStamped = true)
    val time = timeColumn(eventTime)
    val flag = flagColumn(settings)
    val progress = HostProgress(
      UUID.randomUUID,
      column("partition", partition),
      column("stamp", stamp),
      time,
      Some(column("stamp", share)),
      settings,
      flag,
      child
    )
    if (child.isStreaming) watermark(settings, time, progress) else unmarked(flag)
  }

  private def watermark(settings: ProgressSettings, time: Attribute, progress: HostProgress): LogicalPlan =
    EventTimeWatermark(
      progress.nodeId,
      time,
      new CalendarInterval(0, 0, settings.delayMs * 1000),
      OwnColumns.renewable(progress)
    )

  private def timeColumn(name: String): Attribute = {
    val found = column("event_time", name)
    found.dataType match {
      case TimestampType => found
      // Spark has no watermarks on them.
      case TimestampNTZType if !child.isStreaming => found
      case other => throw Errors.watermarkColumnType("event_time", found.name, other.sql, "TIMESTAMP")
    }
  }

  private def flagColumn(settings: ProgressSettings): Option[Attribute] =
    if (settings.futureLimitMicros.isEmpty || settings.onFuture != OnFuture.Divert) None
    else {
      val name = ProgressSettings.FlagColumn
      if (child.output.exists(a => sameName(a.name, name))) throw Errors.watermarkColumnExists(name)
      Some(AttributeReference(name, BooleanType, nullable = false)())
    }

  private def column(argument: String, name: String): Attribute =
    child.output.filter(a => sameName(a.name, name)) match {
      case Seq(one) => one
      case found => throw Errors.watermarkColumn(argument, name, found.size, child.output.map(_.name))
    }
}
