package io.tailrace.monitor

import java.time.Instant

import scala.collection.immutable.Queue

import org.apache.spark.sql.streaming.StreamingQueryProgress

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
