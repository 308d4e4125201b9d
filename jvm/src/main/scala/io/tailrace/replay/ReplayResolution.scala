package io.tailrace.replay

import org.apache.spark.sql.catalyst.expressions.RowOrdering
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.types._

import io.tailrace.common.Mark
import io.tailrace.plan.{Columns, OwnColumns}

/** Finds the columns that the arguments name, and checks what can be checked before a query runs.
  *
  * @param sameName the session's rule for names
  */
private[tailrace] final class ReplayResolution(child: LogicalPlan, sameName: (String, String) => Boolean) {
  import ReplayResolution._

  private val columns = new Columns(ReplayOptions.arguments, child.output, sameName)

  def resolve(options: ReplayOptions): LogicalPlan = {
    val settings = options.settings
    val metadata = options.metadata.zip(if (options.metadata.size == 1) OfKey else OfColumns).map {
      case (name, (argument, dataType)) => columns.find(argument, name, dataType)
    }
    val order = options.order.map(columns.find("order", _))
    order.find(a => !RowOrdering.isOrderable(a.dataType)).foreach { a =>
      throw columns.wrongType("order", a, "an orderable type")
    }
    val eventTime = options.eventTime.map(columns.find("event_time", _, TimestampType))
    if (settings.marksReplays) columns.checkAdded(Mark.Column, Columns.rename(Mark.Column))
    val mark = Option.when(settings.marksReplays)(Mark.attribute())
    OwnColumns.renewable(FilterReplays(metadata, order, eventTime, settings, mark, child))
  }
}

private object ReplayResolution {
  private val OfKey = Seq("key" -> BinaryType)
  private val OfColumns = Seq("pid" -> LongType, "partition" -> IntegerType, "offset" -> LongType)
}
