package io.tailrace.watermark

import java.util.UUID

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode}
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.operators.stateful._
import org.apache.spark.sql.execution.{CodegenSupport, SparkPlan}
import org.apache.spark.unsafe.types.CalendarInterval

import io.tailrace.driver.{DriverWatermarkExec, DriverWatermarkStats, SparkWatermark}

/** Spark's own node of a watermark, but what it says at the end of a batch is the low watermark of a source's hosts.
  *
  * Spark's tracker asks `eventTimeStats` on the driver before the batch is committed; from there the watermark takes
  * Spark's own way: the checkpoint, the policy of several watermarks, the propagation to each operator (`adr/008`). Rows
  * pass; so that generated code need not end here, the node is a part of it that does nothing.
  */
final class LowWatermarkExec(nodeId: UUID, eventTime: Attribute, delay: CalendarInterval, child: SparkPlan)(
    val settings: ProgressSettings,
    stats: EventTimeStatsAccum
) extends DriverWatermarkExec(nodeId, eventTime, delay, child)(stats)
    with CodegenSupport {
  override def nodeName: String = "LowWatermark"

  override def inputRDDs(): Seq[RDD[InternalRow]] = child.asInstanceOf[CodegenSupport].inputRDDs()
  override protected def doProduce(ctx: CodegenContext): String =
    child.asInstanceOf[CodegenSupport].produce(ctx, this)
  override def doConsume(ctx: CodegenContext, input: Seq[ExprCode], row: ExprCode): String =
    consume(ctx, input)

  override protected def otherCopyArgs: Seq[AnyRef] = Seq(settings, newStats)
  override def copy(
      nodeId: UUID,
      eventTime: Attribute,
      delay: CalendarInterval,
      child: SparkPlan
  ): LowWatermarkExec =
    new LowWatermarkExec(nodeId, eventTime, delay, child)(settings, newStats)
  private def newStats: EventTimeStatsAccum = LowWatermarkExec.stats(session, settings)
}

object LowWatermarkExec {

  /** What a new node needs besides its settings. */
  def stats(session: SparkSession, settings: ProgressSettings): EventTimeStatsAccum =
    new LowWatermarkStats(session, settings)
}

/** What Spark takes for the event times of a batch: one that is as far as the low watermark lets it be.
  *
  * A row exactly at the low watermark is on time, and one at Spark's watermark is late: Spark's, in whole milliseconds, is
  * the last one before ours.
  */
private[watermark] final class LowWatermarkStats(session: SparkSession, settings: ProgressSettings)
    extends DriverWatermarkStats(session) {
  private lazy val source = SourceWatermarks.of(session, settings)

  override protected def watermarkMs: Option[Long] = {
    val low = source.end(batch.batchId, QueryTopology.of(session, batch, _))
    Option.when(low != HostTable.Never)(SparkWatermark.before(low))
  }

  override def copy(): EventTimeStatsAccum = new LowWatermarkStats(session, settings)
}
