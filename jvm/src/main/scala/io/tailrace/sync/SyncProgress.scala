package io.tailrace.sync

import java.util.UUID

import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference, AttributeSet}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.tailrace.WriteToStream
import org.apache.spark.sql.types.TimestampType
import org.apache.spark.unsafe.types.CalendarInterval

import io.tailrace.common.Side

/** The logical node of one side of `tailrace.sync_join`: notes the progress of each source partition.
  *
  * @param partitions columns whose values tell partitions apart, of any type that can be a string
  * @param time       the side's event time
  */
case class SyncProgress(
    side: Side,
    partitions: Seq[Attribute],
    time: Attribute,
    settings: SyncSettings,
    child: LogicalPlan
) extends UnaryNode {
  override def output: Seq[Attribute] = child.output

  override protected def withNewChildInternal(newChild: LogicalPlan): SyncProgress = copy(child = newChild)
}

/** The rows of a side, with the node beside them that ends a batch of the join.
  *
  * @param end Spark's watermark node over a [[SyncEnd]]. It is beside the rows, and no child yet, because
  *            Spark refuses a watermark node above another one, which the user may have set
  */
case class Synced(child: LogicalPlan, end: EventTimeWatermark) extends UnaryNode {
  override def output: Seq[Attribute] = child.output

  override protected def withNewChildInternal(newChild: LogicalPlan): Synced = copy(child = newChild)
}

/** A [[Synced]] in a query that Spark has checked. The watermark node is a child, so that Spark asks it. */
case class SyncedInQuery(left: LogicalPlan, right: LogicalPlan) extends BinaryNode {
  override def output: Seq[Attribute] = left.output

  // Spark must not prune columns of the node that nobody reads.
  @transient override lazy val references: AttributeSet = right.outputSet

  override protected def withNewChildrenInternal(newLeft: LogicalPlan, newRight: LogicalPlan): SyncedInQuery =
    copy(left = newLeft, right = newRight)
}

/** Puts it into the plan when a query starts, after Spark's checks. */
object SyncedQueries extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    case write: WriteToStream if write.inputQuery.exists(_.isInstanceOf[Synced]) =>
      AnalysisHelper.allowInvokingTransformsInAnalyzer {
        write.copy(inputQuery = write.inputQuery.transform { case Synced(side, end) =>
          SyncedInQuery(side, end)
        })
      }
    case other => other
  }
}

/** A leaf without rows. */
case class SyncEnd(settings: SyncSettings, output: Seq[Attribute]) extends LeafNode {
  override def isStreaming: Boolean = true
  override def computeStats(): Statistics = Statistics(sizeInBytes = 1)
}

object Synced {

  /** A side with the end of the join's batches beside it. Only one of the two sides has it. */
  def of(side: LogicalPlan, settings: SyncSettings): Synced = {
    val time = AttributeReference("end", TimestampType)()
    val end = SyncEnd(settings, Seq(time))
    Synced(side, EventTimeWatermark(UUID.randomUUID(), time, new CalendarInterval(0, 0, 0), end))
  }
}
