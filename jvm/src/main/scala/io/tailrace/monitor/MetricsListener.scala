package io.tailrace.monitor

import org.apache.spark.sql.streaming.StreamingQueryListener
import org.apache.spark.sql.streaming.StreamingQueryListener._
import org.apache.spark.sql.tailrace.SparkMonitoring

/** Gives the numbers of all streaming queries, of Tailrace's operators and of Spark's own, to Prometheus and to
  * Spark's metrics system. Name it in `spark.sql.streaming.streamingQueryListeners`.
  */
final class MetricsListener extends StreamingQueryListener {
  override def onQueryStarted(event: QueryStartedEvent): Unit =
    metrics.foreach(_.started(event.id.toString, Option(event.name)))

  override def onQueryProgress(event: QueryProgressEvent): Unit =
    metrics.foreach(_.progressed(event.progress.id.toString, event.progress))

  override def onQueryTerminated(event: QueryTerminatedEvent): Unit =
    metrics.foreach(_.terminated(event))

  // None when the application has just ended.
  private def metrics: Option[ApplicationMetrics] =
    SparkMonitoring.application.map(ApplicationMetrics.of)
}
