package io.tailrace.replay

import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeSet}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}
import org.apache.spark.sql.catalyst.streaming.WriteToStreamStatement
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}

import io.tailrace.plan.{Obstacle, TailraceNode, WriteCheck}

/** `tailrace.filter_replays`, resolved. See [[ReplayFilterExec]] for what the columns mean. */
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

  override def refusedInRecursion: Option[Obstacle] = Some(
    Obstacle("filter_replays", "a row that comes round would be taken for a replay")
  )

  override def output: Seq[Attribute] = child.output ++ mark

  override def producedAttributes: AttributeSet = AttributeSet(mark)

  override protected def withNewChildInternal(newChild: LogicalPlan): FilterReplays = copy(child = newChild)
}

object FilterReplays {

  /** Two filters of one name would write into one directory of the checkpoint. */
  private object NamesCheck extends WriteCheck {
    override def apply(write: WriteToStreamStatement): Unit = {
      val names = write.inputQuery.collect { case f: FilterReplays => f.settings.name }
      WriteCheck.unique("tailrace.filter_replays", names)
    }
  }
}

object ReplayFilterStrategy extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case f: FilterReplays =>
      val inOrder = KafkaOrder.isKept(f.child, f.order)
      val exec = ReplayFilterExec(
        f.metadata,
        f.order,
        f.eventTime,
        f.settings,
        f.mark,
        inOrder,
        f.isStreaming,
        planLater(f.child)
      )
      ObservedReplays(exec) :: Nil
    case _ => Nil
  }
}
