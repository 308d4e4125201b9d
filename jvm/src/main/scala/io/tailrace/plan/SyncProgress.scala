package io.tailrace.plan

import java.util.UUID

import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference, AttributeSet}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.types.TimestampType
import org.apache.spark.unsafe.types.CalendarInterval

import io.tailrace.sync._

/** One side of `tailrace.sync_join`, resolved: its progress is kept per source partition.
  *
  * @param partitions columns whose values tell partitions apart, of any type that can be a string
  * @param time       the side's event time
  */
case class SyncProgress(
    side: SyncSide,
    partitions: Seq[Attribute],
    time: Attribute,
    settings: SyncSettings,
    child: LogicalPlan
) extends UnaryNode {
  override def output: Seq[Attribute] = child.output

  override protected def withNewChildInternal(newChild: LogicalPlan): SyncProgress = copy(child = newChild)
}

/** The rows of `left`; `right` has none, and is where a batch of the join ends: Spark's watermark node over a [[SyncEnd]]. */
case class Synced(left: LogicalPlan, right: LogicalPlan) extends BinaryNode {
  override def output: Seq[Attribute] = left.output

  // Nothing of the node is to be pruned because nobody needs it.
  @transient override lazy val references: AttributeSet = right.outputSet

  override protected def withNewChildrenInternal(newLeft: LogicalPlan, newRight: LogicalPlan): Synced =
    copy(left = newLeft, right = newRight)
}

/** No rows. */
case class SyncEnd(settings: SyncSettings, output: Seq[Attribute]) extends LeafNode {
  override def isStreaming: Boolean = true
  override def computeStats(): Statistics = Statistics(sizeInBytes = 1)
}

object SyncEnd {

  /** The watermark nodes of a plan that mark rows. */
  def watermarks(plan: LogicalPlan): Seq[EventTimeWatermark] = plan.collect {
    case watermark: EventTimeWatermark if !watermark.child.isInstanceOf[SyncEnd] => watermark
  }
}

object Synced {

  /** A side with the end of the join's batches beside it: one of the two has it. */
  def of(progress: SyncProgress): Synced = {
    val time = AttributeReference("end", TimestampType)()
    val end = SyncEnd(progress.settings, Seq(time))
    Synced(progress, EventTimeWatermark(UUID.randomUUID(), time, new CalendarInterval(0, 0, 0), end))
  }
}

/** Keeps no state: a stream under AQE plans the same nodes again and again. */
final class SyncProgressStrategy(session: SparkSession) extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case p: SyncProgress =>
      SyncProgressExec(p.side, p.partitions, p.time, p.settings, planLater(p.child)) :: Nil
    case Synced(left, right) => SyncedExec(planLater(left), planLater(right)) :: Nil
    case EventTimeWatermark(id, _, _, end: SyncEnd) =>
      SyncReportExec(end.settings, SyncEndExec(session, id, end.output.head, end.settings)) :: Nil
    case _ => Nil
  }
}

object SyncProgressStrategy extends (org.apache.spark.sql.SparkSession => SparkStrategy) {
  override def apply(session: org.apache.spark.sql.SparkSession): SparkStrategy =
    new SyncProgressStrategy(session.asInstanceOf[SparkSession])
}
