package org.apache.spark.sql.tailrace

import org.apache.spark.sql.catalyst.encoders.ExpressionEncoder
import org.apache.spark.sql.catalyst.plans.logical.{EventTimeWatermark, LogicalPlan}
import org.apache.spark.sql.classic.{Dataset => ClassicDataset}
import org.apache.spark.sql.execution.streaming.runtime._
import org.apache.spark.sql.execution.streaming.sources.ForeachBatchSink
import org.apache.spark.sql.streaming.{OutputMode, StreamingQuery, StreamingQueryManager}
import org.apache.spark.sql.{DataFrame, Dataset, Row}
import org.apache.spark.util.Clock

/** A streaming query whose clock is controlled from outside, for tests of pipelines. */
final class ClockedQuery private (val query: StreamingQuery) {

  /** The watermark that the next batch has, in milliseconds; 0: none yet. */
  def watermarkMs: Long =
    StreamWatermarks.tracker(ClockedQuery.execution(query)).fold(0L)(_.currentWatermark)

  /** The watermarks of its streams, whose minimum is the query's: by the column of the event time. */
  def watermarks: Seq[StreamWatermark] = StreamWatermarks.of(query.id)
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

  /** Spark takes the query's watermark from those of its streams at the end of the batch. */
  private def move(query: MicroBatchExecution, ms: Long): Unit =
    StreamWatermarks.tracker(query).foreach { tracker =>
      val watermarks = StreamWatermarks.byNode(tracker)
      query.logicalPlan.foreach {
        case w: EventTimeWatermark =>
          val seen = ms - EventTimeWatermark.getDelayMs(w.delay)
          tracker.synchronized {
            watermarks(w.nodeId) = Some(watermarks.get(w.nodeId).flatten.fold(seen)(Math.max(_, seen)))
          }
        case _ =>
      }
    }

  private def execution(query: StreamingQuery): MicroBatchExecution =
    query.asInstanceOf[StreamingQueryWrapper].streamingQuery.asInstanceOf[MicroBatchExecution]

  private final class GivenClock(ms: () => Long) extends Clock {
    override def getTimeMillis(): Long = ms()
    override def nanoTime(): Long = System.nanoTime()
    override def waitTillTime(targetTime: Long): Long = throw new UnsupportedOperationException
  }
}
