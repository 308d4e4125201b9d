package org.apache.spark.sql.tailrace

import org.apache.spark.sql.catalyst.encoders.ExpressionEncoder
import org.apache.spark.sql.catalyst.plans.logical.{EventTimeWatermark, LogicalPlan}
import org.apache.spark.sql.classic.{Dataset => ClassicDataset}
import org.apache.spark.sql.execution.streaming.runtime._
import org.apache.spark.sql.execution.streaming.sources.ForeachBatchSink
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streaming.{OutputMode, StreamingQuery, StreamingQueryManager}
import org.apache.spark.sql.{DataFrame, Dataset, Row}
import org.apache.spark.util.Clock

/** A streaming query whose clock somebody else moves, for tests of pipelines. */
final class ClockedQuery private (val query: StreamingQuery) {

  /** The watermark that the next batch has, in milliseconds; 0: none yet. */
  def watermarkMs: Long = ClockedQuery.tracker(ClockedQuery.execution(query)).fold(0L)(_.currentWatermark)
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

  /** Runs `body` while no query of the session plans a batch: rows that it adds to several sources are one batch. */
  def betweenBatches(queries: StreamingQueryManager)(body: => Unit): Unit =
    queries.active
      .sortBy(_.id)
      .foldLeft(() => body) { (inner, query) => () =>
        execution(query).withProgressLocked(inner())
      }()

  /** Moves the watermark of the query whose thread this is, as rows at a time in every stream would. To be called
    * within a batch, as rows do it: between two it is too late, because Spark has asked whether the next one is
    * needed.
    *
    * @param ms      event time, in milliseconds
    * @param isAsked whether it is for the query with this plan
    */
  def seeEventTime(ms: Long)(isAsked: LogicalPlan => Boolean): Unit =
    StreamingRun.execution(SparkSession.active) match {
      case query: MicroBatchExecution if isAsked(query.logicalPlan) => move(query, ms)
      case _ =>
    }

  private def move(query: MicroBatchExecution, ms: Long): Unit = {
    val plan = query.logicalPlan
    val delays = plan.collect { case w: EventTimeWatermark => EventTimeWatermark.getDelayMs(w.delay) }
    tracker(query).filter(_ => delays.nonEmpty).foreach { tracker =>
      val policy = MultipleWatermarkPolicy(
        query.sparkSessionForStream.conf.get(SQLConf.STREAMING_MULTIPLE_WATERMARK_POLICY.key)
      )
      val moved = policy.chooseGlobalWatermark(delays.map(ms - _))
      if (moved > tracker.currentWatermark) tracker.setWatermark(moved)
    }
  }

  private def execution(query: StreamingQuery): MicroBatchExecution =
    query.asInstanceOf[StreamingQueryWrapper].streamingQuery.asInstanceOf[MicroBatchExecution]

  /** None until the query's thread has made it. Scala's `protected` is public for the JVM. */
  private def tracker(query: MicroBatchExecution): Option[WatermarkTracker] =
    Option(classOf[MicroBatchExecution].getMethod("watermarkTracker").invoke(query)).collect {
      case tracker: WatermarkTracker => tracker
    }

  private final class GivenClock(ms: () => Long) extends Clock {
    override def getTimeMillis(): Long = ms()
    override def nanoTime(): Long = System.nanoTime()
    override def waitTillTime(targetTime: Long): Long = throw new UnsupportedOperationException
  }
}
