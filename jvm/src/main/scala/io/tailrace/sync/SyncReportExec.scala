package io.tailrace.sync

import java.util.UUID

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, NamedExpression, SortOrder}
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.{BinaryExecNode, CollectMetricsExec, SparkPlan}
import org.apache.spark.sql.tailrace.StreamingBatch
import org.apache.spark.unsafe.types.CalendarInterval

import io.tailrace.driver.{ColumnsOfWatermark, DriverWatermark, DriverWatermarkExec, InputWatermarks}

/** Where a batch of a synced join ends: on the driver, after its tasks and before Spark commits it. Nothing but the watermark
  * nodes of a query is asked then, so it is one, over no rows; the watermark that it tells is the other inputs'.
  *
  * {{{
  *   join ── SyncedExec ── SyncProgressExec ── the user's left rows
  *     │         └── SyncReportExec ── DriverWatermarkExec of SyncEndWatermark
  *     └──── SyncProgressExec ── the user's right rows
  * }}}
  */
private[sync] final case class SyncEndWatermark(settings: SyncSettings) extends DriverWatermark {
  override def nodeName: String = "SyncEnd"
  override def followsOthers: Boolean = true
  override def after(batch: StreamingBatch, session: SparkSession): Option[Long] = {
    val run = SyncRuns.of(session, settings)
    run.end(batch.batchId, SourcePartitions.of(session, settings.name))
    run.watermark(InputWatermarks.of(session))
  }
}

/** Shows the progress of a synced join in that of the query, `observedMetrics`, for which Spark asks its own operator of
  * `Dataset.observe`. It has no rows.
  */
final class SyncReportExec(name: String, expressions: Seq[NamedExpression], end: SparkPlan)(
    val settings: SyncSettings
) extends CollectMetricsExec(name, expressions, end) {
  override def nodeName: String = "SyncReport"

  override def collectedMetrics: Row = SyncRuns.of(session, settings).metrics

  override protected def doExecute(): RDD[InternalRow] = child.execute()

  // The parent's would reset an accumulator that nobody has registered.
  override def resetMetrics(): Unit = children.foreach(_.resetMetrics())

  override protected def otherCopyArgs: Seq[AnyRef] = Seq(settings)
  override def canEqual(other: Any): Boolean = other.isInstanceOf[SyncReportExec]
  override def equals(other: Any): Boolean = super.equals(other)
  override def hashCode: Int = super.hashCode
  override protected def withNewChildInternal(newChild: SparkPlan): SyncReportExec =
    new SyncReportExec(name, expressions, newChild)(settings)
}

object SyncReportExec {

  /** @param nodeId    of the watermark node, as Spark's tracker of watermarks knows it
    * @param eventTime a column that has no rows
    */
  def apply(
      session: SparkSession,
      nodeId: UUID,
      eventTime: Attribute,
      settings: SyncSettings
  ): SyncReportExec = {
    val end = DriverWatermarkExec(
      session,
      nodeId,
      eventTime,
      new CalendarInterval(0, 0, 0),
      ColumnsOfWatermark(Seq(eventTime)),
      SyncEndWatermark(settings)
    )
    new SyncReportExec(SyncReport.name(settings), Nil, end)(settings)
  }
}

/** The rows of a side, and beside them the node that ends a batch: it has no place above rows, for Spark allows no watermark
  * node above another one, which the user may have.
  */
final case class SyncedExec(left: SparkPlan, right: SparkPlan) extends BinaryExecNode {
  override def nodeName: String = "Synced"
  override def output: Seq[Attribute] = left.output
  override def outputPartitioning: Partitioning = left.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = left.outputOrdering

  override protected def doExecute(): RDD[InternalRow] = left.execute()

  override protected def withNewChildrenInternal(newLeft: SparkPlan, newRight: SparkPlan): SyncedExec =
    copy(left = newLeft, right = newRight)
}
