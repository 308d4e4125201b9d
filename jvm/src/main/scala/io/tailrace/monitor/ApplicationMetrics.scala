package io.tailrace.monitor

import java.nio.charset.StandardCharsets.UTF_8
import java.time.{Instant, LocalDate}
import java.util.concurrent.{ScheduledThreadPoolExecutor, TimeUnit}
import java.util.{LinkedHashMap, UUID}

import scala.collection.immutable.Queue
import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.SparkContext
import org.apache.spark.internal.Logging
import org.apache.spark.scheduler.{SparkListener, SparkListenerApplicationEnd}
import org.apache.spark.sql.streaming.StreamingQueryListener._
import org.apache.spark.sql.streaming.{StreamingQueryListener, StreamingQueryProgress}
import org.apache.spark.sql.tailrace.{SparkMonitoring, StreamWatermarks}

import io.tailrace.checkpoint.DurableFiles
import io.tailrace.common.{TailraceConf, TailraceStateException}

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
  if (
    SparkMonitoring.attach(context, ApplicationMetrics.Path, PrometheusText.ContentType)(() =>
      PrometheusText.of(values)
    )
  )
    logInfo(s"Metrics for Prometheus: ${context.uiWebUrl.getOrElse("")}${ApplicationMetrics.Path}")
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
    // Another name of the same checkpoint starts new series.
    val series = Option(queries.get(id)).filter(_.labels == labels)
    queries.put(id, series.map { known => known.started(); known }.getOrElse(new QuerySeries(labels)))
    registryNames.put(id, nameInRegistry(id, name.getOrElse(id)))
    show()
  }

  def progressed(id: String, progress: StreamingQueryProgress): Unit = {
    val streams = StreamWatermarks.of(progress.id)
    val values = ProgressValues.of(progress, streams.watermarks)
    history.foreach(_.add(progress, values.values.flatten.toSeq))
    synchronized {
      Option(queries.get(id)).foreach(_.add(progress, values, streams))
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
    // So the last values stay visible, and a driver that runs thousands of queries keeps few.
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

  /** Registers a gauge for each series. */
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

/** Keeps the progress of all queries of an application as files of JSON lines, which `tailrace-progress` reads.
  *
  * {{{
  *   12:07:10 batch 7 of examples  --> in memory
  *   12:07:20 batch 8 of examples  --> in memory
  *   12:08:00                      --> <directory>/date=2026-01-01/<application>-<unique>.json, two lines
  * }}}
  *
  * A file per micro-batch would be thousands per day. So lines are buffered for a minute, or until their query ends. A
  * driver that is killed loses those of its last minute. If the directory can't be written to, queries continue, a
  * warning is logged, and lines stay buffered for the next minute.
  *
  * @param application its id, which begins the files' names
  */
private[monitor] final class ProgressHistory(directory: Path, conf: Configuration, application: String)
    extends Logging {
  import ProgressHistory._

  private val files = DurableFiles.in(directory, conf)
  private var waiting = Queue.empty[(LocalDate, String)]
  private var dropped = 0L
  private val writing = new Object
  private val every = new ScheduledThreadPoolExecutor(1, (task: Runnable) => newThread(task))
  every.scheduleWithFixedDelay(() => flush(), EverySeconds, EverySeconds, TimeUnit.SECONDS): Unit

  /** @param values of the progress, by [[ProgressValues]] */
  def add(progress: StreamingQueryProgress, values: Seq[MetricValue]): Unit =
    add(Instant.parse(progress.timestamp), ProgressReport.line(progress, values))

  /** A query has ended. Its lines are written at once. */
  def end(query: String, event: QueryTerminatedEvent): Unit = {
    val now = Instant.now
    add(now, ProgressReport.end(query, event, now))
    flush()
  }

  private def add(at: Instant, line: String): Unit = synchronized {
    waiting = waiting :+ (ProgressReport.day(at) -> line)
    forgetOldest()
  }

  /** Writes the buffered lines. Calls wait for each other, so that a query's end finds its lines written. */
  def flush(): Unit = writing.synchronized {
    val lines = synchronized { val taken = waiting; waiting = Queue.empty; taken }
    // Days one after the other: a failure keeps those that aren't written yet.
    lines.groupMap(_._1)(_._2).toSeq.sortBy(_._1.toEpochDay).foreach { case (day, ofDay) =>
      try write(day, ofDay)
      catch { case NonFatal(e) => keep(ofDay.map(day -> _), e) }
    }
  }

  private def write(day: LocalDate, lines: Seq[String]): Unit = {
    val file = new Path(new Path(directory, s"date=$day"), s"$application-${UUID.randomUUID}.json")
    try files.create(file)(_.write(lines.mkString("", "\n", "\n").getBytes(UTF_8)))
    // The error names a file of a state. The file system's own message is true of this file, too.
    catch { case e: TailraceStateException => throw e.getCause }
  }

  private def keep(lines: Seq[(LocalDate, String)], cause: Throwable): Unit = {
    val lost = synchronized { waiting = waiting.prependedAll(lines); forgetOldest(); dropped }
    logWarning(
      s"The history of the queries' progress can't be written to $directory: $cause. ${lines.size} micro-batches " +
        s"wait for the next attempt; $lost were dropped.",
      cause
    )
  }

  private def forgetOldest(): Unit = {
    val surplus = waiting.size - Most
    if (surplus > 0) {
      waiting = waiting.drop(surplus)
      dropped += surplus
    }
  }

  /** At the end of the application. */
  def close(): Unit = {
    every.shutdownNow(): Unit
    flush()
  }
}

private[monitor] object ProgressHistory {
  private val EverySeconds = 60L

  private def newThread(task: Runnable): Thread = {
    val thread = new Thread(task, "tailrace-progress-history")
    thread.setDaemon(true)
    thread
  }

  /** Lines in memory, about 5 kB each. */
  private[monitor] val Most = 10000
}

/** Series in Prometheus' text format 0.0.4. */
private[monitor] object PrometheusText {
  val ContentType = "text/plain; version=0.0.4; charset=utf-8"

  def of(values: Seq[(SeriesKey, Double)]): String = {
    val text = new StringBuilder
    values.groupBy(_._1.series).toSeq.sortBy(_._1).foreach { case (series, of) =>
      val metric = MetricCatalog.metrics(series)
      text ++= s"# HELP $series ${escaped(metric.help, quotes = false)}\n"
      text ++= s"# TYPE $series ${if (metric.isCount) "counter" else "gauge"}\n"
      of.foreach { case (key, value) =>
        val labels = key.labels.map { case (name, label) => s"""$name="${escaped(label, quotes = true)}"""" }
        text ++= s"$series${labels.mkString("{", ",", "}")} ${number(value)}\n"
      }
    }
    text.result()
  }

  private def number(value: Double): String =
    if (value == value.toLong.toDouble) value.toLong.toString else value.toString

  private def escaped(text: String, quotes: Boolean): String = {
    val lines = text.replace("\\", "\\\\").replace("\n", "\\n")
    if (quotes) lines.replace("\"", "\\\"") else lines
  }
}

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
