package io.tailrace.replay

import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference, RowOrdering}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.types._

import io.tailrace.common.{Durations, Errors}
import io.tailrace.plan.OwnColumns

/** Finds the columns that the user named and checks all that can be checked before a query runs.
  *
  * @param sameName the session's rule for names
  */
private[tailrace] final class ReplayResolution(child: LogicalPlan, sameName: (String, String) => Boolean) {
  import ReplayResolution._

  def resolve(options: ReplayOptions): LogicalPlan = {
    val divert = options.onReplay match {
      case "drop" => false
      case "divert" => true
      case other => throw Errors.replayOptionInvalid("on_replay", other, "drop or divert")
    }
    if (options.disorder < 0 || options.disorder > MostDisorder) {
      throw Errors.replayOptionInvalid(
        "disorder",
        options.disorder.toString,
        s"a whole number from 0 to $MostDisorder"
      )
    }
    if (!options.name.matches("[A-Za-z0-9_-]{1,100}")) {
      throw Errors.replayOptionInvalid("name", options.name, "1 to 100 letters, digits, _ and -")
    }
    val metadata = options.metadata.zip(if (options.metadata.size == 1) OfKey else OfColumns).map {
      case (name, (argument, dataType)) => column(argument, name, dataType)
    }
    if (options.order.size < 2)
      throw Errors.replayOptionInvalid("order", options.order.mkString(", "), "two columns or more")
    val order = options.order.map(column("order", _))
    order.foreach { a =>
      if (!RowOrdering.isOrderable(a.dataType)) {
        throw Errors.replayColumnType("order", a.name, a.dataType.sql, "an orderable type")
      }
    }
    if (divert && child.output.exists(a => sameName(a.name, ReplaySettings.FlagColumn))) {
      throw Errors.replayColumnExists(ReplaySettings.FlagColumn)
    }
    val flag =
      if (divert) Some(AttributeReference(ReplaySettings.FlagColumn, BooleanType, nullable = false)())
      else None
    val eventTime = options.eventTime.map(column("event_time", _, TimestampType))
    if (eventTime.nonEmpty && options.forgetAfter.isEmpty) {
      throw Errors.replayOptionInvalid("event_time", eventTime.get.name, "of use without forget_after")
    }
    val settings =
      ReplaySettings(options.name, options.disorder, divert, options.forgetAfter.map(forgetAfterMs))
    OwnColumns.renewable(FilterReplays(metadata, order, eventTime, settings, flag, child))
  }

  private def forgetAfterMs(text: String): Long =
    Durations.read(text).map(_ / 1000).filter(_ > 0).getOrElse {
      throw Errors.replayOptionInvalid(
        "forget_after",
        text,
        "a duration of a millisecond or more, such as 30 days"
      )
    }

  private def column(argument: String, name: String, dataType: DataType): Attribute = {
    val found = column(argument, name)
    if (found.dataType != dataType) {
      throw Errors.replayColumnType(argument, name, found.dataType.sql, dataType.sql)
    }
    found
  }

  private def column(argument: String, name: String): Attribute =
    child.output.filter(a => sameName(a.name, name)) match {
      case Seq(one) => one
      case found => throw Errors.replayColumn(argument, name, found.size, child.output.map(_.name))
    }
}

private object ReplayResolution {

  /** The window of each origin would be more than its marks are worth. */
  private val MostDisorder = 4096

  private val OfKey = Seq("key" -> BinaryType)
  private val OfColumns = Seq("pid" -> LongType, "partition" -> IntegerType, "offset" -> LongType)
}
