package io.tailrace.driver

import java.util.UUID

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.operators.stateful._
import org.apache.spark.sql.execution.{LeafExecNode, SparkPlan}
import org.apache.spark.sql.tailrace.StreamingBatch
import org.apache.spark.unsafe.types.CalendarInterval

/** Spark's own node of a watermark, through which rows just pass: what it says at the end of a batch is found out on the
  * driver. That is asked before the batch is committed, and maybe several times.
  *
  * @param eventTimeStats set before the parent's constructor runs, which registers it; so each copy needs its own
  */
abstract class DriverWatermarkExec(
    nodeId: UUID,
    eventTime: Attribute,
    delay: CalendarInterval,
    child: SparkPlan
)(
    override val eventTimeStats: EventTimeStatsAccum
) extends EventTimeWatermarkExec(nodeId, eventTime, delay, child) {
  override protected def doExecute(): RDD[InternalRow] = child.execute()

  /** The parent keeps an accumulator of its own that was never registered, and can't be sent to executors. All that is
    * asked of this node there are its columns: operators find the event time among them.
    */
  protected def writeReplace(): AnyRef = ColumnsOfWatermark(output)

  override protected def withNewChildInternal(newChild: SparkPlan): EventTimeWatermarkExec =
    copy(nodeId, eventTime, delay, newChild)

  override def canEqual(other: Any): Boolean = other.getClass == getClass
  override def equals(other: Any): Boolean = super.equals(other)
  override def hashCode: Int = super.hashCode
}

/** What Spark takes for the event times of a batch: one, which is as far as the watermark may go. */
abstract class DriverWatermarkStats(session: SparkSession) extends EventTimeStatsAccum {
  protected final lazy val batch: StreamingBatch = StreamingBatch.current(session)

  /** The watermark after the batch, in milliseconds; none: there is none yet. */
  protected def watermarkMs: Option[Long]

  final override def value: EventTimeStats = {
    SkippedBatch.runIfSkipped(session)
    watermarkMs.fold(EventTimeStats.zero)(ms => EventTimeStats(ms, ms, ms.toDouble, 1))
  }

  override def isZero: Boolean = currentStats == EventTimeStats.zero
}

/** What executors see of a [[DriverWatermarkExec]]. They never run it. */
private[tailrace] final case class ColumnsOfWatermark(output: Seq[Attribute]) extends LeafExecNode {
  override protected def doExecute(): RDD[InternalRow] =
    throw new UnsupportedOperationException("the watermark node is run on the driver")
}
