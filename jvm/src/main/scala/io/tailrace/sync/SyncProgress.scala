package io.tailrace.sync

import java.util.UUID

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference, AttributeSet, SortOrder}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{BinaryExecNode, SparkPlan, SparkStrategy}
import org.apache.spark.sql.tailrace.{SparkSession, StreamingBatch, WriteToStream}
import org.apache.spark.sql.types.TimestampType
import org.apache.spark.unsafe.types.CalendarInterval

import io.tailrace.driver._

/** The logical node of one side of `tailrace.sync_join`: notes the progress of each source partition.
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

/** It keeps no state: under AQE, a stream plans the same nodes several times. */
final class SyncProgressStrategy(session: SparkSession) extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case p: SyncProgress =>
      SyncProgressExec(p.side, p.partitions, p.time, p.settings, planLater(p.child)) :: Nil
    // A plan that is shown before there is a query.
    case Synced(side, _) => planLater(side) :: Nil
    case SyncedInQuery(side, end) => SyncedExec(planLater(side), planLater(end)) :: Nil
    case EventTimeWatermark(id, _, _, end: SyncEnd) =>
      SyncEndWatermark(end.settings).node(session, id, end.output.head) :: Nil
    case _ => Nil
  }
}

object SyncProgressStrategy extends (org.apache.spark.sql.SparkSession => SparkStrategy) {
  override def apply(session: org.apache.spark.sql.SparkSession): SparkStrategy =
    new SyncProgressStrategy(session.asInstanceOf[SparkSession])
}

/** Ends a batch on the driver, after its tasks and before Spark commits it. Spark asks only watermark nodes
  * then, so this is one, over no rows. Its watermark is that of the other inputs.
  *
  * {{{
  *   join ── SyncedExec ── SyncProgressExec ── the user's left rows
  *     │         └── ReportExec ── DriverWatermarkExec of SyncEndWatermark
  *     └──── SyncProgressExec ── the user's right rows
  * }}}
  */
private[sync] final case class SyncEndWatermark(settings: SyncSettings) extends DriverWatermark {
  override def nodeName: String = "SyncEnd"
  override def followsOthers: Boolean = true
  override def after(batch: StreamingBatch, session: SparkSession): Option[Long] = {
    val run = SyncRun.of(session, settings)
    run.end(batch.batchId, KafkaSource.of(session, settings.name))
    run.watermark(InputWatermarks.of(session))
  }

  /** The node, below the one that reports the join's progress.
    *
    * @param nodeId    as Spark's tracker of watermarks knows it
    * @param eventTime a column that has no rows
    */
  def node(session: SparkSession, nodeId: UUID, eventTime: Attribute): SparkPlan = {
    val rows = ColumnsOfWatermark(Seq(eventTime))
    val watermark = DriverWatermarkExec(session, nodeId, eventTime, new CalendarInterval(0, 0, 0), rows, this)
    ReportExec(SyncReport.name(settings), watermark) { case _ => SyncRun.of(session, settings).metrics }
  }
}

/** The operator of [[SyncedInQuery]]: the node that ends a batch is never executed. */
final case class SyncedExec(left: SparkPlan, right: SparkPlan) extends BinaryExecNode {
  override def nodeName: String = "Synced"
  override def output: Seq[Attribute] = left.output
  override def outputPartitioning: Partitioning = left.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = left.outputOrdering

  override protected def doExecute(): RDD[InternalRow] = left.execute()

  override protected def withNewChildrenInternal(newLeft: SparkPlan, newRight: SparkPlan): SyncedExec =
    copy(left = newLeft, right = newRight)
}
