package io.tailrace.monitor

import java.time.Instant
import java.util.LinkedHashMap

import scala.jdk.CollectionConverters._

import org.apache.spark.SparkContext
import org.apache.spark.internal.Logging
import org.apache.spark.scheduler.{SparkListener, SparkListenerApplicationEnd}
import org.apache.spark.sql.streaming.StreamingQueryListener.QueryTerminatedEvent
import org.apache.spark.sql.streaming.StreamingQueryProgress
import org.apache.spark.sql.tailrace.{SparkMonitoring, StreamWatermarks}

import io.tailrace.common.TailraceConf

import com.codahale.metrics.{Gauge, MetricRegistry}

/** The series of all queries of an application, whatever sessions they run in.
  *
  * {{{
  *   progress -> QuerySeries -> PrometheusText   <driver's UI>/metrics/tailrace/prometheus
  *                           -> UiPage           <driver's UI>/tailrace/
  *                           -> a registry       Spark's metrics system: JMX, Graphite, StatsD, its servlets
  *            -> ProgressHistory                  spark.tailrace.monitor.history
  * }}}
  */
private[monitor] final class ApplicationMetrics(context: SparkContext) extends Logging {
  import ApplicationMetrics._

  // By the query's id, which is its checkpoint's.
  private val queries = new LinkedHashMap[String, QuerySeries]
  private val ended = new LinkedHashMap[String, Unit]
  private val registry = new MetricRegistry
  // By the query's id.
  private val registryNames = new LinkedHashMap[String, String]
  private var shown = Map.empty[String, Double]

  SparkMonitoring.register("tailrace", registry)
  if (SparkMonitoring.attach(context, Path, PrometheusText.ContentType)(() => PrometheusText.of(values)))
    logInfo(s"Metrics for Prometheus: ${context.uiWebUrl.getOrElse("")}$Path")
  SparkMonitoring.attachTab(context, "tailrace", "Tailrace")(() => UiPage.of(series, Instant.now))

  private val history = TailraceConf.MonitorHistory.read(context.getConf.getOption).map { directory =>
    new ProgressHistory(directory, context.hadoopConfiguration, context.applicationId)
  }
  history.foreach { kept =>
    context.addSparkListener(new SparkListener {
      override def onApplicationEnd(end: SparkListenerApplicationEnd): Unit = kept.close()
    })
  }

  def started(id: String, name: Option[String]): Unit = synchronized {
    ended.remove(id)
    val labels = Seq("query" -> name.getOrElse(id), "query_id" -> id)
    // Another name of the same checkpoint begins anew.
    val series = Option(queries.get(id)).filter(_.labels == labels)
    queries.put(id, series.map { known => known.started(); known }.getOrElse(new QuerySeries(labels)))
    registryNames.put(id, nameInRegistry(id, name.getOrElse(id)))
    show()
  }

  def progressed(id: String, progress: StreamingQueryProgress): Unit = {
    val values = ProgressValues.of(progress, StreamWatermarks.of(progress.id))
    history.foreach(_.add(progress, values.values.flatten.toSeq))
    synchronized {
      Option(queries.get(id)).foreach(_.add(progress, values))
      show()
    }
  }

  def terminated(event: QueryTerminatedEvent): Unit = {
    val id = event.id.toString
    val name = synchronized(Option(queries.get(id))).fold(id)(_.labels.toMap.apply("query"))
    history.foreach(_.end(name, event))
    end(id, event.exception.isDefined)
  }

  private def end(id: String, failed: Boolean): Unit = synchronized {
    Option(queries.get(id)).foreach(_.ended(failed))
    ended.put(id, ())
    // So that the last values are seen, and a driver that runs thousands of queries keeps few.
    while (ended.size > MostEnded) {
      val oldest = ended.keySet.iterator.next()
      ended.remove(oldest)
      queries.remove(oldest)
      registryNames.remove(oldest)
    }
    show()
  }

  def values: Seq[(SeriesKey, Double)] = series.flatMap(_.values)

  private def series: Seq[QuerySeries] = synchronized(queries.values.asScala.toSeq)

  private final class Shown(name: String) extends Gauge[Double] {
    override def getValue: Double = ApplicationMetrics.this.synchronized(shown.getOrElse(name, Double.NaN))
  }

  /** `<query>.<series>.<value of a label>...` */
  private def registryName(key: SeriesKey): String = {
    val labels = key.labels.toMap
    val others = key.labels.filterNot(label => QueryLabels(label._1)).map(_._2)
    (registryNames.get(labels("query_id")) +: key.series.stripPrefix("tailrace_") +: others.map(simple))
      .mkString(".")
  }

  /** Two queries may have one name, in two sessions, or names that differ in other characters only. */
  private def nameInRegistry(id: String, name: String): String = {
    val simpleName = simple(name)
    val isTaken = registryNames.asScala.exists { case (other, taken) => other != id && taken == simpleName }
    if (isTaken) s"$simpleName-${id.take(8)}" else simpleName
  }

  /** Lets the registry have a gauge for each series. */
  private def show(): Unit = {
    val now = values.map { case (key, value) => registryName(key) -> value }.toMap
    (shown.keySet -- now.keySet).foreach(registry.remove)
    val before = shown.keySet
    shown = now
    (now.keySet -- before).foreach { name =>
      registry.register(name, new Shown(name)): Unit
    }
  }
}

private[monitor] object ApplicationMetrics {
  val Path = "/metrics/tailrace/prometheus"
  private val MostEnded = 100
  private val QueryLabels = Set("query", "query_id")

  // A JVM has one at a time.
  private var current = Option.empty[(SparkContext, ApplicationMetrics)]

  def of(context: SparkContext): ApplicationMetrics = synchronized {
    current.filter(_._1 eq context).map(_._2).getOrElse {
      val metrics = new ApplicationMetrics(context)
      current = Some(context -> metrics)
      metrics
    }
  }

  private def simple(text: String): String = text.replaceAll("[^A-Za-z0-9_-]+", "_")
}
