package io.tailrace.testkit

import java.io.File
import java.sql.Timestamp
import java.util.concurrent.ConcurrentSkipListMap

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.streaming.{OutputMode, StateOperatorProgress, StreamingQuery}
import org.apache.spark.sql.tailrace.{MemoryStream, StreamAccess}
import org.apache.spark.sql.{DataFrame, Dataset, Row}

/** One thing that happened: `kind` tells impressions from clicks in a stream of both. */
final case class Event(k: String, t: Timestamp, id: Int, kind: String)

object Event {
  def at(k: String, second: Double, id: Int, kind: String = "imp"): Event =
    Event(k, Times.seconds(second), id, kind)

  /** Later than all windows of what came before it. */
  val End: Double = 4.0 * 366 * 24 * 3600

  def end(id: Int, kind: String = "imp"): Event = at(s"end-$id", End, id, kind)
}

/** Two streams of events whose batch cuts the test decides, and a query on them. Results are kept by batch id, as an idempotent
  * sink does.
  */
final class EventStreams(spark: SparkSession, checkpoint: File)(query: (DataFrame, DataFrame) => DataFrame) {
  import spark.implicits._

  private val left = MemoryStream[Event](spark)
  private val right = MemoryStream[Event](spark)
  private val batches = new ConcurrentSkipListMap[Long, Seq[Row]]
  private var running: StreamingQuery = _

  def start(): EventStreams = {
    running = query(left.toDF(), right.toDF()).writeStream
      .outputMode(OutputMode.Append)
      .option("checkpointLocation", checkpoint.getPath)
      .foreachBatch { (rows: Dataset[Row], batch: Long) =>
        batches.put(batch, rows.collect().toSeq)
        ()
      }
      .start()
    this
  }

  def restart(): EventStreams = {
    running.stop()
    start()
  }

  def stop(): Unit = running.stop()

  /** Adds rows as one batch and waits until nothing is left to do. */
  def add(lefts: Seq[Event], rights: Seq[Event]): EventStreams = {
    StreamAccess.betweenBatches(running) {
      if (lefts.nonEmpty) left.addData(lefts)
      if (rights.nonEmpty) right.addData(rights)
    }
    running.processAllAvailable()
    this
  }

  def streaming: StreamingQuery = running

  def all: Seq[Row] = batches.values.asScala.flatten.toSeq

  /** Of the last batch that ran. */
  def operators: Seq[StateOperatorProgress] =
    running.recentProgress.filter(_.durationMs.containsKey("addBatch")).maxBy(_.batchId).stateOperators.toSeq

  /** Rows that the operators keep, by the operator's name. */
  def kept: Seq[(String, Long)] = operators.map(o => o.operatorName -> o.numRowsTotal)

  /** Rows that any operator dropped for the watermark in this run. */
  def dropped: Long = running.recentProgress.flatMap(_.stateOperators).map(_.numRowsDroppedByWatermark).sum
}
