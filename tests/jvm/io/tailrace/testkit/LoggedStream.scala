package io.tailrace.testkit

import java.io.File
import java.sql.Timestamp
import java.util.concurrent.ConcurrentSkipListMap

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.streaming.{OutputMode, StreamingQuery}
import org.apache.spark.sql.tailrace.{MemoryStream, RunClock, StreamAccess}
import org.apache.spark.sql.{DataFrame, Dataset, Row}

/** A row of a host's log. */
final case class Logged(host: String, at: Timestamp, id: Long)

/** Streams of logs whose batch cuts the test decides, and a query on them. Results are kept by batch id, as an idempotent
  * sink does.
  *
  * @param sources how many streams there are
  * @param clock   that idle time is measured by, if the test has one
  */
final class LoggedStream(
    spark: SparkSession,
    checkpoint: File,
    sources: Int = 1,
    clock: Option[RunClock] = None
)(
    query: Seq[DataFrame] => DataFrame
) {
  import spark.implicits._

  private val inputs = Seq.fill(sources)(MemoryStream[Logged](spark))
  private val batches = new ConcurrentSkipListMap[Long, Seq[Row]]
  private var running: StreamingQuery = _
  @volatile private var failing = false

  /** What the function of foreachBatch does with a batch before it keeps its rows. */
  @volatile var before: Dataset[Row] => Unit = _ => ()

  def start(mode: OutputMode = OutputMode.Append): LoggedStream = {
    running = StreamAccess.start(query(inputs.map(_.toDF())), checkpoint.getPath, clock, mode) {
      (rows, batch) =>
        before(rows)
        batches.put(batch, rows.collect().toSeq)
        if (failing) {
          failing = false
          throw new IllegalStateException("as the test wants it")
        }
    }
    this
  }

  def restart(): LoggedStream = {
    running.stop()
    start()
  }

  /** The next batch does all of its work, and fails before it is committed. */
  def failNext(): Unit = failing = true

  /** Adds rows to the streams as one batch and waits until nothing is left to do. @return the rows that came out */
  def add(rows: Seq[Logged]*): Seq[Row] = {
    val before = if (batches.isEmpty) -1L else batches.lastKey.longValue
    StreamAccess.betweenBatches(running) {
      rows.zip(inputs).foreach { case (r, input) => if (r.nonEmpty) input.addData(r) }
    }
    running.processAllAvailable()
    batches.tailMap(before, false).values.asScala.flatten.toSeq
  }

  def streaming: StreamingQuery = running

  def all: Seq[Row] = batches.values.asScala.flatten.toSeq

  /** Spark's watermark in the last batch, in seconds from noon. */
  def watermark: Double = (StreamAccess.watermarkMs(running) - LoggedStream.Noon * 1000) / 1000.0

  /** What a source said in the last batch. */
  def metrics(name: String = "tailrace.watermark"): Row =
    running.recentProgress.filter(_.observedMetrics.containsKey(name)).last.observedMetrics.get(name)
}

object LoggedStream {

  /** In seconds. */
  val Noon: Long = java.time.Instant.parse("2026-01-01T12:00:00Z").getEpochSecond

  /** @param second from noon, with up to six digits */
  def at(second: Double): Timestamp = {
    val micros = Math.round(second * 1e6)
    val time = new Timestamp((Noon + Math.floorDiv(micros, 1000000L)) * 1000)
    time.setNanos(Math.floorMod(micros, 1000000L).toInt * 1000)
    time
  }

  /** @param rows pairs of host and second */
  def logged(rows: (String, Double)*): Seq[Logged] =
    rows.map { case (host, second) => Logged(host, at(second), Math.round(second * 1000)) }
}
