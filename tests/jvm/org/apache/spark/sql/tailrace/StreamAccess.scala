package org.apache.spark.sql.tailrace

import java.util.UUID

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqMetadata
import org.apache.spark.sql.execution.streaming.runtime._
import org.apache.spark.sql.execution.streaming.state.StateStore
import org.apache.spark.sql.streaming.{OutputMode, SourceProgress, StreamingQuery, StreamingQueryProgress}
import org.apache.spark.sql.{DataFrame, Dataset, Row, classic}
import org.scalatest.Assertions._
import org.scalatest.concurrent.Eventually._
import org.scalatest.time.{Seconds, Span}

/** Spark's internals that the stream harness uses. */
object StreamAccess {

  private def execution(query: StreamingQuery): MicroBatchExecution =
    query.asInstanceOf[StreamingQueryWrapper].streamingQuery.asInstanceOf[MicroBatchExecution]

  /** Starts a query whose batches are made at the times of the test's clock. */
  def start(frame: DataFrame, checkpoint: String, clockMs: () => Long)(
      each: (Dataset[Row], Long) => Unit
  ): StreamingQuery = start(
    frame,
    checkpoint,
    Some(new RunClock {
      override def nanos: Long = RunClock.System.nanos
      override def wallMs: Long = clockMs()
    })
  )(each)

  /** Starts a query on a clock of its own, if the test has one. */
  def start(
      frame: DataFrame,
      checkpoint: String,
      clock: Option[RunClock],
      mode: OutputMode = OutputMode.Append
  )(
      each: (Dataset[Row], Long) => Unit
  ): StreamingQuery = clock match {
    case Some(own) => ClockedQuery.start(frame, checkpoint, own, mode)(each).query
    case None =>
      frame.writeStream.outputMode(mode).option("checkpointLocation", checkpoint).foreachBatch(each).start()
  }

  /** A query's operators with state, as Spark plans its first micro-batch. */
  def stateful(frame: DataFrame, mode: OutputMode): Seq[StateStoreWriter] = {
    val query = frame.asInstanceOf[classic.Dataset[Row]]
    val batch = new IncrementalExecution(
      query.sparkSession,
      query.logicalPlan,
      mode,
      "nowhere",
      UUID.randomUUID,
      UUID.randomUUID,
      0,
      None,
      OffsetSeqMetadata(0, 0),
      WatermarkPropagator.noop(),
      false
    )
    StreamingPlan.nodes(batch.executedPlan).collect { case operator: StateStoreWriter => operator }
  }

  /** A progress with other rows of `observedMetrics`. */
  def observing(progress: StreamingQueryProgress, observed: Map[String, Row]): StreamingQueryProgress =
    copy(progress, progress.batchId, progress.sources, observed)

  /** A progress with other sources. */
  def reading(progress: StreamingQueryProgress, sources: Seq[SourceProgress]): StreamingQueryProgress =
    copy(progress, progress.batchId, sources.toArray, progress.observedMetrics.asScala.toMap)

  /** A progress of another micro-batch. */
  def numbered(progress: StreamingQueryProgress, batch: Long): StreamingQueryProgress =
    copy(progress, batch, progress.sources, progress.observedMetrics.asScala.toMap)

  private def copy(
      progress: StreamingQueryProgress,
      batch: Long,
      sources: Array[SourceProgress],
      observed: Map[String, Row]
  ): StreamingQueryProgress =
    new StreamingQueryProgress(
      progress.id,
      progress.runId,
      progress.name,
      progress.timestamp,
      batch,
      progress.batchDuration,
      progress.durationMs,
      progress.eventTime,
      progress.stateOperators,
      sources,
      progress.sink,
      observed.asJava
    )

  /** Runs `body` while Spark plans no batch: rows that it adds to several sources are one batch. */
  def betweenBatches(query: StreamingQuery)(body: => Unit): Unit = execution(query).withProgressLocked(body)

  /** The physical plan of the last batch. */
  def executedPlan(query: StreamingQuery): SparkPlan = execution(query).lastExecution.executedPlan

  /** Closes the stores of all partitions, and ends what does their upkeep: the next store to be opened begins it anew, with
    * the settings of its query.
    *
    * Spark's `stop` waits six minutes for a thread that does upkeep, while it has the lock that the thread waits for. So the
    * threads come to rest first: without stores they have nothing to do.
    */
  def stopStores(): Unit = {
    StateStore.unloadAll()
    eventually(timeout(Span(30, Seconds)))(assert(!isUpkeepRunning))
    StateStore.stop()
  }

  private def isUpkeepRunning: Boolean =
    Thread.getAllStackTraces.asScala.exists { case (thread, frames) =>
      thread.getName.startsWith("state-store-maintenance-thread") &&
      frames.exists(_.getClassName.startsWith(StateStore.getClass.getName))
    }

  /** The watermark that the next batch has as far as it is known, in milliseconds. */
  def nextWatermarkMs(query: StreamingQuery): Long =
    StreamWatermarks.tracker(execution(query)).fold(0L)(_.currentWatermark)

  /** The watermark of the last batch, in milliseconds. */
  def watermarkMs(query: StreamingQuery): Long =
    execution(query).lastExecution.offsetSeqMetadata.batchWatermarkMs
}
