package io.tailrace.recursion

import java.util.UUID

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.streaming.operators.stateful._
import org.apache.spark.sql.tailrace.{StreamingBatch, StreamingRun}
import org.apache.spark.unsafe.types.CalendarInterval

import io.tailrace.progress.ColumnsOfWatermark

/** Spark's own node of a watermark, on the rows that come round: what it says at the end of a batch is as far as the other
  * watermarks of the query are, but not beyond the rows in flight. Of all watermarks Spark takes the least.
  */
final class HeldWatermarkExec(nodeId: UUID, eventTime: Attribute, delay: CalendarInterval, child: SparkPlan)(
    val recursion: String,
    // Set before the parent's constructor runs, which registers it; so each copy needs its own.
    override val eventTimeStats: EventTimeStatsAccum
) extends EventTimeWatermarkExec(nodeId, eventTime, delay, child) {
  override def nodeName: String = "HeldWatermark"

  override protected def doExecute(): RDD[InternalRow] = child.execute()

  /** As of the watermark of hosts: executors ask for the columns only. */
  protected def writeReplace(): AnyRef = ColumnsOfWatermark(output)

  override protected def otherCopyArgs: Seq[AnyRef] = Seq(recursion, newStats)
  override def copy(
      nodeId: UUID,
      eventTime: Attribute,
      delay: CalendarInterval,
      child: SparkPlan
  ): HeldWatermarkExec =
    new HeldWatermarkExec(nodeId, eventTime, delay, child)(recursion, newStats)
  override protected def withNewChildInternal(newChild: SparkPlan): EventTimeWatermarkExec =
    copy(nodeId, eventTime, delay, newChild)
  private def newStats: EventTimeStatsAccum = HeldWatermarkExec.stats(session, recursion)

  override def canEqual(other: Any): Boolean = other.isInstanceOf[HeldWatermarkExec]
  override def equals(other: Any): Boolean = super.equals(other)
  override def hashCode: Int = super.hashCode
}

object HeldWatermarkExec {

  /** What a new node needs besides its columns. */
  def stats(session: SparkSession, recursion: String): EventTimeStatsAccum =
    new HeldWatermarkStats(session, recursion)
}

/** What Spark takes for the event times of a batch. */
private[recursion] final class HeldWatermarkStats(session: SparkSession, recursion: String)
    extends EventTimeStatsAccum {
  private lazy val batch = StreamingBatch.current(session)
  private lazy val inFlight = RowsInFlight.of(session, recursion)

  override def value: EventTimeStats =
    inFlight.watermark(batch.batchId, inputs) match {
      case Some(ms) => EventTimeStats(ms, ms, ms.toDouble, 1)
      case None => EventTimeStats.zero
    }

  /** All watermarks but those that are held. */
  private def inputs: Map[UUID, Option[Long]] =
    StreamingRun
      .current(session)
      .watermarkNodes
      .filterNot(_.isInstanceOf[HeldWatermarkExec])
      .map { node =>
        val stats = node.eventTimeStats.value
        node.nodeId -> (if (stats.count > 0) Some(stats.max - node.delayMs) else None)
      }
      .toMap

  override def isZero: Boolean = currentStats == EventTimeStats.zero
  override def copy(): EventTimeStatsAccum = new HeldWatermarkStats(session, recursion)
}
