package io.tailrace.testkit

import java.io.File
import java.util.concurrent.{ConcurrentHashMap, ConcurrentSkipListMap}

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.streaming.{StateOperatorProgress, StreamingQuery}
import org.apache.spark.sql.tailrace.{MemoryStream, RunClock, StreamAccess}
import org.apache.spark.sql.{DataFrame, Row}

import io.tailrace.api.Tailrace
import io.tailrace.label.JoinOptions

/** A streaming query whose input and batch cuts the test decides. A batch runs when it is given rows, and a batch without
  * rows when the watermark has moved.
  *
  * Results are kept by batch id, as an idempotent sink does, so that a batch that runs again replaces what it gave.
  *
  * @param checkpoint of the query, which is what survives [[restart]]; the inputs survive as long as the harness
  * @param clock      that idle time is measured by, if the test has one
  * @param query      of the left and the right input
  */
final class StreamHarness(spark: SparkSession, checkpoint: File, clock: Option[RunClock] = None)(
    query: (DataFrame, DataFrame) => DataFrame
) {
  import spark.implicits._

  private val left = MemoryStream[Served](spark)
  private val right = MemoryStream[Engaged](spark)
  private val batches = new ConcurrentSkipListMap[Long, Seq[Row]]
  private val changedBatches = ConcurrentHashMap.newKeySet[Long].asScala
  private var running: StreamingQuery = _
  private var reported = -1L

  /** The left and the right input. */
  def inputs: (DataFrame, DataFrame) = (left.toDF(), right.toDF())

  def start(): StreamHarness = start(query)

  /** Starts another query on the same inputs and the same checkpoint. */
  def start(changed: (DataFrame, DataFrame) => DataFrame): StreamHarness = {
    running = StreamAccess.start(changed(left.toDF(), right.toDF()), checkpoint.getPath, clock) {
      (rows, batch) =>
        val now = rows.collect().toSeq
        val before = Option(batches.put(batch, now))
        if (before.exists(multiset(_) != multiset(now))) changedBatches += batch
    }
    this
  }

  def stop(): Unit = running.stop()

  def restart(): StreamHarness = {
    stop()
    start()
  }

  def streaming: StreamingQuery = running

  /** Adds rows to both inputs as one batch, without waiting for it. */
  def add(served: Seq[Served], engaged: Seq[Engaged]): Unit =
    StreamAccess.betweenBatches(running)(preload(served, engaged))

  /** Adds rows before the query is started: those that its checkpoint has seen, in the batches it saw them in. */
  def preload(served: Seq[Served], engaged: Seq[Engaged]): Unit = {
    if (served.nonEmpty) left.addData(served)
    if (engaged.nonEmpty) right.addData(engaged)
  }

  /** Adds rows as one batch and waits until nothing is left to do. @return the rows of each batch that ran for it */
  def rows(served: Seq[Served], engaged: Seq[Engaged]): Seq[Seq[Row]] = {
    add(served, engaged)
    settle()
  }

  /** As [[rows]], each batch's rows in an order of their own. */
  def step(served: Seq[Served], engaged: Seq[Engaged]): Seq[Seq[Emitted]] =
    rows(served, engaged).map(batch => Emitted.sorted(batch.map(Emitted.of)))

  def left(served: Served*): Seq[Seq[Emitted]] = step(served, Nil)
  def right(engaged: Engaged*): Seq[Seq[Emitted]] = step(Nil, engaged)

  /** Waits until nothing is left to do. @return the rows of each batch that ran since the last call */
  def settle(): Seq[Seq[Row]] = {
    running.processAllAvailable()
    val news = batches.tailMap(reported, false).asScala.toSeq
    reported = news.lastOption.fold(reported)(_._1)
    news.map(_._2)
  }

  /** Eighths of a time pass, and Spark asks for a batch after each. @return the rows of each batch that ran */
  def pass(clock: ManualClock, ms: Long, eighths: Int): Seq[Seq[Emitted]] =
    (1 to eighths).flatMap { _ =>
      clock.advance(ms / 8)
      settle().map(rows => Emitted.sorted(rows.map(Emitted.of)))
    }

  /** Batches that ran again and gave other rows than before: a sink that had taken the first ones would be wrong. */
  def changed: Set[Long] = changedBatches.toSet

  /** What each batch gave, by its id. */
  def byBatch: Map[Long, Seq[Emitted]] =
    batches.asScala.view.mapValues(rows => Emitted.sorted(rows.map(Emitted.of))).toMap

  private def multiset(rows: Seq[Row]): Map[Row, Int] = rows.groupMapReduce(identity)(_ => 1)(_ + _)

  def allRows: Seq[Row] = batches.values.asScala.flatten.toSeq

  def all: Seq[Emitted] = Emitted.sorted(allRows.map(Emitted.of))

  /** Ids of batches so far; also the version of the state that the last of them made. */
  def batchCount: Long = batches.lastKey + 1

  /** What each batch of this run reported of its operators. An idle query reports too, with the numbers of the last
    * batch: those are left out.
    */
  def reports: Seq[Seq[StateOperatorProgress]] =
    running.recentProgress.toSeq
      .filter(_.durationMs.containsKey("addBatch"))
      .sortBy(_.batchId)
      .map(_.stateOperators.toSeq)

  /** Of an operator of the last batch that ran. */
  def progress(operator: Int = 0): StateOperatorProgress = reports.last(operator)

  /** The sum of one of the join's own metrics over all batches of this run, where the join is the only operator. */
  def total(metric: String): Long = reports.map(_.head.customMetrics.get(metric).longValue).sum

  /** Rows that any operator dropped for the watermark in this run. */
  def dropped: Long = reports.flatten.map(_.numRowsDroppedByWatermark).sum
}

object StreamHarness {

  /** A join of [[Served]] and [[Engaged]] rows by `k`, each side with a watermark of its delay. */
  def join(
      options: JoinOptions,
      leftDelay: String = "0 seconds",
      rightDelay: String = "0 seconds"
  )(served: DataFrame, engaged: DataFrame): DataFrame =
    Tailrace.join(
      served.withWatermark("t", leftDelay),
      engaged.withWatermark("rt", rightDelay),
      Seq("k" -> "k"),
      options
    )

  def options(after: String): JoinOptions = JoinOptions(leftTime = "t", rightTime = "rt", after = after)
}
