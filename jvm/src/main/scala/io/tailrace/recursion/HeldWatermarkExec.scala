package io.tailrace.recursion

import java.util.UUID

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.streaming.operators.stateful._
import org.apache.spark.unsafe.types.CalendarInterval

import io.tailrace.driver.{DriverWatermarkExec, DriverWatermarkStats, FollowsWatermarks, InputWatermarks}

/** Spark's own node of a watermark, on the rows that come round: what it says at the end of a batch is as far as the other
  * watermarks of the query are, but not beyond the rows in flight. Of all watermarks Spark takes the least.
  */
final class HeldWatermarkExec(nodeId: UUID, eventTime: Attribute, delay: CalendarInterval, child: SparkPlan)(
    val recursion: String,
    stats: EventTimeStatsAccum
) extends DriverWatermarkExec(nodeId, eventTime, delay, child)(stats)
    with FollowsWatermarks {
  override def nodeName: String = "HeldWatermark"

  override protected def otherCopyArgs: Seq[AnyRef] = Seq(recursion, newStats)
  override def copy(
      nodeId: UUID,
      eventTime: Attribute,
      delay: CalendarInterval,
      child: SparkPlan
  ): HeldWatermarkExec =
    new HeldWatermarkExec(nodeId, eventTime, delay, child)(recursion, newStats)
  private def newStats: EventTimeStatsAccum = HeldWatermarkExec.stats(session, recursion)
}

object HeldWatermarkExec {

  /** What a new node needs besides its columns. */
  def stats(session: SparkSession, recursion: String): EventTimeStatsAccum =
    new HeldWatermarkStats(session, recursion)
}

/** What Spark takes for the event times of a batch. */
private[recursion] final class HeldWatermarkStats(session: SparkSession, recursion: String)
    extends DriverWatermarkStats(session) {
  private lazy val inFlight = RowsInFlight.of(session, recursion)

  override protected def watermarkMs: Option[Long] =
    inFlight.watermark(batch.batchId, InputWatermarks.of(session))

  override def copy(): EventTimeStatsAccum = new HeldWatermarkStats(session, recursion)
}
