package io.tailrace.replay

import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeSet, RowOrdering}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.types._

import io.tailrace.common.Mark
import io.tailrace.driver.ReportExec
import io.tailrace.plan.{Columns, Obstacle, OwnColumns, TailraceNode, WriteCheck}

/** The logical node of `tailrace.filter_replays`. [[ReplayFilterExec]] explains the columns. */
case class FilterReplays(
    metadata: Seq[Attribute],
    order: Seq[Attribute],
    eventTime: Option[Attribute],
    settings: ReplaySettings,
    mark: Option[Attribute],
    child: LogicalPlan
) extends UnaryNode
    with TailraceNode {
  override def operator: String = "tailrace.filter_replays"
  override def writeChecks: Seq[WriteCheck] = Seq(FilterReplays.NamesCheck)

  override def refusedInRecursion: Option[Obstacle] =
    Some(Obstacle("filter_replays", "a row that comes round would be taken for a replay"))

  override def output: Seq[Attribute] = child.output ++ mark

  override def producedAttributes: AttributeSet = AttributeSet(mark)

  override protected def withNewChildInternal(newChild: LogicalPlan): FilterReplays = copy(child = newChild)
}

object FilterReplays {

  private val NamesCheck = WriteCheck.uniqueNames("tailrace.filter_replays") { case f: FilterReplays =>
    f.settings.name
  }
}

object ReplayFilterStrategy extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case f @ FilterReplays(metadata, order, eventTime, settings, mark, child) =>
      val inOrder = KafkaOrder.isKept(child, order)
      val exec =
        ReplayFilterExec(metadata, order, eventTime, settings, mark, inOrder, f.isStreaming, planLater(child))
      ReportExec(settings.progressName, exec) { case filter: ReplayFilterExec =>
        filter.counts.toRow
      } :: Nil
    case _ => Nil
  }
}

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
