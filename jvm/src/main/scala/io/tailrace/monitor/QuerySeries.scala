package io.tailrace.monitor

import java.time.Instant

import scala.collection.immutable.Queue
import scala.collection.mutable

import org.apache.spark.sql.streaming.StreamingQueryProgress

/** The series of one query, over all of its starts in this driver. A count is summed up, because Prometheus
  * doesn't look at each micro-batch.
  *
  * {{{
  *   batch 7 at 12:00   3 late rows, 10 buffered   late_rows_total 3    state_rows 10
  *   batch 8 at 12:01   2 late rows,  4 buffered   late_rows_total 5    state_rows 4
  * }}}
  *
  * @param labels of the query
  */
private[monitor] final class QuerySeries(val labels: Seq[(String, String)]) {
  private val counts = new mutable.LinkedHashMap[SeriesKey, Double]
  private val levels = new mutable.LinkedHashMap[String, Seq[MetricValue]]
  private var batches = RecentBatches()
  // A count that appears with 1 hasn't grown, for Prometheus.
  count(ProgressValues.queryCounts)
  started()

  def started(): Unit = synchronized(state(active = true))

  def isActive: Boolean =
    synchronized(levels(ProgressValues.QueryPart).exists(v => v.metric.field == "active" && v.value == 1))

  def recent: RecentBatches = synchronized(batches)

  /** @param values of the progress, by [[ProgressValues]] */
  def add(progress: StreamingQueryProgress, values: Map[String, Seq[MetricValue]]): Unit = synchronized {
    batches = batches.add(progress)
    values.foreach { case (part, ofPart) => put(part, ofPart) }
  }

  def ended(failed: Boolean): Unit = synchronized {
    state(active = false)
    count(ProgressValues.queryValues("failures" -> (if (failed) 1d else 0d)))
  }

  /** Series and their values, with the query's labels. */
  def values: Seq[(SeriesKey, Double)] =
    ownValues.map { case (key, value) => key.copy(labels = labels ++ key.labels) -> value }

  /** The same without the query's labels. */
  def ownValues: Seq[(SeriesKey, Double)] = synchronized {
    counts.toSeq ++ levels.values.flatten.map(value => value.key -> value.value)
  }

  private def state(active: Boolean): Unit = {
    val before = levels.getOrElse(ProgressValues.QueryPart, Nil).filterNot(_.metric.field == "active")
    levels(ProgressValues.QueryPart) =
      ProgressValues.queryValues("active" -> (if (active) 1d else 0d)) ++ before
  }

  private def put(part: String, values: Seq[MetricValue]): Unit = {
    val (summed, shown) = values.partition(_.metric.isCount)
    count(summed)
    levels(part) = shown
  }

  private def count(values: Seq[MetricValue]): Unit =
    values.foreach(value => counts(value.key) = counts.getOrElse(value.key, 0d) + value.value)
}

/** A micro-batch as the chart shows it.
  *
  * @param rows    that it read
  * @param waiting rows in the state of all operators after it
  */
private[monitor] final case class BatchPoint(
    batch: Long,
    began: Instant,
    seconds: Double,
    rows: Long,
    waiting: Long
)

/** The last micro-batches of a query, oldest first. */
private[monitor] final case class RecentBatches(points: Queue[BatchPoint] = Queue.empty) {

  def add(progress: StreamingQueryProgress): RecentBatches = {
    val point = BatchPoint(
      progress.batchId,
      Instant.parse(progress.timestamp),
      progress.batchDuration / 1e3,
      progress.numInputRows,
      progress.stateOperators.map(_.numRowsTotal).sum
    )
    // A trigger that finds nothing to do reports the batch before it again.
    RecentBatches((points.filterNot(_.batch == point.batch) :+ point).takeRight(RecentBatches.Most))
  }
}

private[monitor] object RecentBatches {
  val Most = 60
}
