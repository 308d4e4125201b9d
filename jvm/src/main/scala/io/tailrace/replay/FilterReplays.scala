package io.tailrace.replay

import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeSet}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}

import io.tailrace.common.ProgressName
import io.tailrace.driver.ReportExec
import io.tailrace.plan.{Obstacle, TailraceNode, WriteCheck}

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

  override def refusedInRecursion: Option[Obstacle] = Some(
    Obstacle("filter_replays", "a row that comes round would be taken for a replay")
  )

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
      ReportExec(f.settings.progressName, exec) { case filter: ReplayFilterExec =>
        filter.counts.toRow
      } :: Nil
    case _ => Nil
  }
}

/** @param name          of the filter's directory in the checkpoint
  * @param disorder      how far below the mark, in offsets, a record may be and still be distinguished from
  *                      its replay
  * @param marksReplays  replays come out too, marked
  * @param forgetAfterMs an origin without a record for longer than this is forgotten; none: no origin ever is
  */
final case class ReplaySettings(
    name: String,
    disorder: Int = 0,
    marksReplays: Boolean = false,
    forgetAfterMs: Option[Long] = None
) {

  /** The name of the filter's counts in `observedMetrics`. */
  def progressName: String = ProgressName("replays", name, ReplayOptions.Name)

  /** Origins that were last seen before the returned time are forgotten.
    *
    * @param clockMs the time now; `Long.MinValue` if it is unknown
    */
  def forgottenBefore(clockMs: Long): Long =
    forgetAfterMs.fold(Long.MinValue)(after =>
      if (clockMs < Long.MinValue + after) Long.MinValue else clockMs - after
    )
}
