package io.tailrace.plan

import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeSet}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}

import io.tailrace.replay.{ObservedReplays, ReplayFilterExec, ReplaySettings}

/** `tailrace.filter_replays`, resolved. See [[ReplayFilterExec]] for what the columns mean. */
case class FilterReplays(
    metadata: Seq[Attribute],
    order: Seq[Attribute],
    eventTime: Option[Attribute],
    settings: ReplaySettings,
    flag: Option[Attribute],
    child: LogicalPlan
) extends UnaryNode {
  override def output: Seq[Attribute] = child.output ++ flag

  override def producedAttributes: AttributeSet = AttributeSet(flag)

  override protected def withNewChildInternal(newChild: LogicalPlan): FilterReplays = copy(child = newChild)
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
        f.flag,
        inOrder,
        f.isStreaming,
        planLater(f.child)
      )
      ObservedReplays(exec) :: Nil
    case _ => Nil
  }
}
