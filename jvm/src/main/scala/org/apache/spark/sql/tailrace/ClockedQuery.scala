package org.apache.spark.sql.tailrace

import org.apache.spark.sql.catalyst.encoders.ExpressionEncoder
import org.apache.spark.sql.catalyst.plans.logical.{EventTimeWatermark, LogicalPlan}
import org.apache.spark.sql.classic.{Dataset => ClassicDataset}
import org.apache.spark.sql.execution.streaming.runtime._
import org.apache.spark.sql.execution.streaming.sources.ForeachBatchSink
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streaming.{OutputMode, StreamingQuery}
import org.apache.spark.sql.{DataFrame, Dataset, Row}
import org.apache.spark.util.Clock

/** A streaming query whose clock somebody else moves, for tests of pipelines. */
final class ClockedQuery private (val query: StreamingQuery) {
  private def execution: MicroBatchExecution =
    query.asInstanceOf[StreamingQueryWrapper].streamingQuery.asInstanceOf[MicroBatchExecution]

  /** Runs `body` while Spark plans no batch: rows that it adds to several sources are one batch. */
  def betweenBatches(body: => Unit): Unit = execution.withProgressLocked(body)

  /** The plan, with its sources. */
  def logicalPlan: LogicalPlan = execution.logicalPlan

  /** The watermark that the next batch has, in milliseconds; 0: none yet. */
  def watermarkMs: Long = tracker.fold(0L)(_.currentWatermark)

  /** None until the query's thread has made it. Scala's `protected` is public for the JVM. */
  private def tracker: Option[WatermarkTracker] =
    Option(classOf[MicroBatchExecution].getMethod("watermarkTracker").invoke(execution)).collect {
      case tracker: WatermarkTracker => tracker
    }

  /** Moves the watermark as rows at a time in every stream would. To be called by a batch, as rows do it.
    *
    * @param ms event time, in milliseconds
    */
  def seeEventTime(ms: Long): Unit = {
    val delays = logicalPlan.collect { case w: EventTimeWatermark => EventTimeWatermark.getDelayMs(w.delay) }
    tracker.filter(_ => delays.nonEmpty).foreach { tracker =>
      val policy = MultipleWatermarkPolicy(
        execution.sparkSessionForStream.conf.get(SQLConf.STREAMING_MULTIPLE_WATERMARK_POLICY.key)
      )
      val moved = policy.chooseGlobalWatermark(delays.map(ms - _))
      if (moved > tracker.currentWatermark) tracker.setWatermark(moved)
    }
  }
}

object ClockedQuery {

  /** Starts a query that makes batches as soon as there is something to do, at the times of `clockMs`.
    *
    * @param each gets the rows of a batch, and its number
    */
  def start(frame: DataFrame, checkpoint: String, clockMs: () => Long, mode: OutputMode)(
      each: (Dataset[Row], Long) => Unit
  ): ClockedQuery = {
    val rows = frame.asInstanceOf[ClassicDataset[Row]]
    new ClockedQuery(
      rows.sparkSession.sessionState.streamingQueryManager.startQuery(
        userSpecifiedName = None,
        userSpecifiedCheckpointLocation = Some(checkpoint),
        df = rows,
        extraOptions = Map.empty,
        sink = new ForeachBatchSink[Row](each, ExpressionEncoder(frame.schema)),
        outputMode = mode,
        triggerClock = new GivenClock(clockMs)
      )
    )
  }

  private final class GivenClock(ms: () => Long) extends Clock {
    override def getTimeMillis(): Long = ms()
    override def nanoTime(): Long = System.nanoTime()
    override def waitTillTime(targetTime: Long): Long = throw new UnsupportedOperationException
  }
}
