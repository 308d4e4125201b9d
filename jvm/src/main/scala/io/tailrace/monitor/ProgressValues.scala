package io.tailrace.monitor

import java.nio.charset.StandardCharsets.UTF_8
import java.sql.Timestamp
import java.time.Instant

import scala.collection.immutable.Queue
import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.spark.sql.Row
import org.apache.spark.sql.streaming.{SourceProgress, StateOperatorProgress, StreamingQueryProgress}
import org.apache.spark.sql.tailrace.{QueryStreams, StreamWatermark}
import org.json4s.DefaultFormats
import org.json4s.jackson.Serialization

import io.tailrace.common.ProgressName

/** A value of a micro-batch.
  *
  * @param labels names and values, without the query's
  */
private[monitor] final case class MetricValue(metric: Metric, labels: Seq[(String, String)], value: Double) {
  def key: SeriesKey = SeriesKey(metric.series, labels)
}

private[monitor] final case class SeriesKey(series: String, labels: Seq[(String, String)])

/** The values of a query's progress. Each part is a place that may be missing in the next progress, as the
  * counts of an operator are that had nothing to do: its levels stay until then.
  *
  * {{{
  *   watermark 12:07, stateOperators [tailraceLabelJoin ...], observedMetrics {tailrace.replays.clicks: ...}
  *     query                              tailrace_query_watermark_timestamp_seconds 1.7672692E9
  *     operator 0                         tailrace_state_rows{operator="tailraceLabelJoin",index="0"} 3
  *     tailrace.replays.clicks            tailrace_replays_dropped_total{name="clicks"} 2
  * }}}
  */
private[monitor] object ProgressValues {

  def of(progress: StreamingQueryProgress, streams: Seq[StreamWatermark]): Map[String, Seq[MetricValue]] =
    ((QueryPart -> query(progress)) +: (StreamPart -> ofStreams(streams)) +:
      progress.sources.toSeq.zipWithIndex.map { case (source, i) => s"source $i" -> ofSource(source, i) } :++
      progress.stateOperators.toSeq.zipWithIndex.map { case (operator, i) =>
        s"operator $i" -> ofOperator(operator, i)
      } :++
      progress.observedMetrics.asScala.toSeq.flatMap { case (name, row) =>
        observed(name, row).map(name -> _)
      }).toMap

  val QueryPart = "query"
  val StreamPart = "stream"

  /** Values of the query itself, by their fields. */
  def queryValues(values: (String, Double)*): Seq[MetricValue] =
    values
      .map { case (field, value) =>
        MetricValue(MetricCatalog.group(QueryPart).find(field).get, Nil, value)
      }
      .map(scaled)

  /** The query's counts at its first start. */
  def queryCounts: Seq[MetricValue] =
    MetricCatalog.group(QueryPart).metrics.filter(_.isCount).map(MetricValue(_, Nil, 0))

  /** None before a row has moved it. */
  def watermark(progress: StreamingQueryProgress): Option[Instant] =
    Option(progress.eventTime.get("watermark")).map(Instant.parse).filter(_ != Instant.EPOCH)

  private def query(progress: StreamingQueryProgress): Seq[MetricValue] =
    queryValues(
      Seq(
        "active" -> 1d,
        "batches" -> 1d,
        "batchId" -> progress.batchId.toDouble,
        "timestamp" -> seconds(Instant.parse(progress.timestamp)),
        "batchDuration" -> progress.batchDuration.toDouble,
        "numInputRows" -> progress.numInputRows.toDouble
      ) ++ watermark(progress).map("watermark" -> seconds(_)): _*
    )

  private def ofStreams(streams: Seq[StreamWatermark]): Seq[MetricValue] =
    // Two columns of one name are distinguished by the one that holds back the query's watermark.
    streams.groupMapReduce(_.column)(_.ms)(Math.min).toSeq.flatMap { case (column, ms) =>
      values(StreamPart, Seq("column" -> column), Seq("watermark" -> ms / 1e3))
    }

  private def ofSource(source: SourceProgress, index: Int): Seq[MetricValue] = {
    val own = for {
      (name, text) <- Option(source.metrics).map(_.asScala.toSeq).getOrElse(Nil)
      value <- text.toDoubleOption
    } yield name -> value
    val labels = Seq("source" -> source.description, "index" -> index.toString)
    values("source", labels, ("numInputRows" -> source.numInputRows.toDouble) +: own)
  }

  private def ofOperator(operator: StateOperatorProgress, index: Int): Seq[MetricValue] = {
    val labels = Seq("operator" -> operator.operatorName, "index" -> index.toString)
    val standard = Seq(
      "numRowsTotal" -> operator.numRowsTotal,
      "numRowsUpdated" -> operator.numRowsUpdated,
      "numRowsRemoved" -> operator.numRowsRemoved,
      "numRowsDroppedByWatermark" -> operator.numRowsDroppedByWatermark,
      "allUpdatesTimeMs" -> operator.allUpdatesTimeMs,
      "allRemovalsTimeMs" -> operator.allRemovalsTimeMs,
      "commitTimeMs" -> operator.commitTimeMs,
      "memoryUsedBytes" -> operator.memoryUsedBytes,
      "numShufflePartitions" -> operator.numShufflePartitions,
      "numStateStoreInstances" -> operator.numStateStoreInstances
    ).map { case (name, value) => name -> value.toDouble }
    val custom = operator.customMetrics.asScala.toSeq.collect {
      // Spark has some for each partition and store: too many series.
      case (name, value) if !name.contains(".partition_") => name -> value.toDouble
    }
    val own = MetricCatalog.find(operator.operatorName)
    val (ofJoins, further) =
      custom.partition { case (name, _) =>
        own.isDefined && MetricCatalog.group("joins").find(name).isDefined
      }
    values("operator", labels, standard) ++
      values("joins", labels, ofJoins) ++
      values(own.fold("operator")(_.of), labels, further)
  }

  /** @param name of `observedMetrics`: `tailrace.replays`, possibly followed by the operator's own name */
  private def observed(name: String, row: Row): Option[Seq[MetricValue]] =
    for {
      (what, own) <- ProgressName.parts(name)
      group <- MetricCatalog.find(what)
    } yield row.schema.fieldNames.toSeq.zipWithIndex.flatMap { case (field, i) =>
      val labels = Seq("name" -> own).filter(_._2.nonEmpty)
      row.get(i) match {
        case list: scala.collection.Seq[_] =>
          list.toSeq.collect { case element: Row => elementValues(group, field, labels, element) }.flatten
        case single => number(single).toSeq.flatMap(value => values(what, labels, Seq(field -> value)))
      }
    }

  private def elementValues(
      group: MetricGroup,
      list: String,
      labels: Seq[(String, String)],
      element: Row
  ): Seq[MetricValue] =
    for {
      (field, metric) <- group.elements(list)
      value <- number(element.getAs[Any](field))
    } yield {
      val which = metric.labels.map(label => label -> String.valueOf(element.getAs[Any](label)))
      scaled(MetricValue(metric, labels ++ which, value))
    }

  private def values(
      of: String,
      labels: Seq[(String, String)],
      fields: Seq[(String, Double)]
  ): Seq[MetricValue] = {
    val group = MetricCatalog.group(of)
    fields.flatMap { case (field, value) =>
      group
        .find(field)
        .map(MetricValue(_, labels, value))
        .orElse(group.find("*").map(MetricValue(_, labels :+ ("metric" -> field), value)))
        .map(scaled)
    }
  }

  private def scaled(value: MetricValue): MetricValue = value.copy(value = value.value * value.metric.scale)

  private def number(value: Any): Option[Double] = value match {
    case null => None
    case time: Timestamp => Some(seconds(time.toInstant))
    case time: Instant => Some(seconds(time))
    case number: Number => Some(number.doubleValue)
    case _ => None
  }

  private def seconds(time: Instant): Double = time.getEpochSecond + time.getNano / 1e9
}

/** A metric, as `metrics.json` describes it.
  *
  * @param field  its name in the query's progress; `late.rows`: of each element of a list; `*`: all others
  * @param kind   "count": of a micro-batch, and Prometheus gets the sum; "level": the current value
  * @param series its name for Prometheus
  * @param help   one sentence, for people
  * @param scale  the factor for a value: milliseconds become seconds
  * @param labels the fields of a list's element that identify it
  */
final case class Metric(
    field: String,
    kind: String,
    series: String,
    help: String,
    scale: Double = 1,
    labels: Seq[String] = Nil
) {
  def isCount: Boolean = kind == "count"

  /** True if a label tells several values apart. */
  def tells(label: String): Boolean = labels.contains(label) || (field == "*" && label == "metric")
}

/** The file has titles and labels for the documentation, too.
  *
  * @param of the owner of the metrics: "query", "source", "operator", an operator's name, a name in `observedMetrics`
  */
final case class MetricGroup(of: String, metrics: Seq[Metric]) {
  private val byField = metrics.map(metric => metric.field -> metric).toMap

  def find(field: String): Option[Metric] = byField.get(field)

  /** The metrics of the elements of a list. */
  def elements(list: String): Seq[(String, Metric)] =
    metrics.filter(_.field.startsWith(s"$list.")).map(metric => metric.field.drop(list.length + 1) -> metric)
}

/** All metrics that Tailrace shows. The page of the documentation is made of the same file. */
object MetricCatalog {
  private val File = "metrics.json"

  val groups: Seq[MetricGroup] = {
    implicit val formats: DefaultFormats.type = DefaultFormats
    val in = getClass.getResourceAsStream(File)
    try Serialization.read[Seq[MetricGroup]](new String(in.readAllBytes(), UTF_8))
    finally in.close()
  }

  private val byName = groups.map(group => group.of -> group).toMap

  def group(of: String): MetricGroup = byName(of)

  def find(of: String): Option[MetricGroup] = byName.get(of)

  private val groupOfSeries = groups.flatMap(group => group.metrics.map(_.series -> group.of)).toMap

  private val places = groups.flatMap(_.metrics).map(_.series).zipWithIndex.toMap

  /** The place of a series in the file, which has the most important ones of each group first. */
  def place(series: String): Int = places(series)

  /** The owner of a series: see [[MetricGroup]]. */
  def groupOf(series: String): String = groupOfSeries(series)

  val metrics: Map[String, Metric] = groups.flatMap(_.metrics).map(metric => metric.series -> metric).toMap
}

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
  private var ofStreams = QueryStreams()
  private var failed = false
  // A count that appears with 1 hasn't grown, for Prometheus.
  count(ProgressValues.queryCounts)
  started()

  def started(): Unit = synchronized(state(active = true))

  def isActive: Boolean =
    synchronized(levels(ProgressValues.QueryPart).exists(v => v.metric.field == "active" && v.value == 1))

  /** True if its last run has ended with an error. */
  def hasFailed: Boolean = synchronized(failed)

  def recent: RecentBatches = synchronized(batches)

  /** In the last micro-batch. */
  def streams: QueryStreams = synchronized(ofStreams)

  /** @param values of the progress, by [[ProgressValues]] */
  def add(
      progress: StreamingQueryProgress,
      values: Map[String, Seq[MetricValue]],
      streams: QueryStreams
  ): Unit = synchronized {
    batches = batches.add(progress)
    ofStreams = streams
    values.foreach { case (part, ofPart) => put(part, ofPart) }
  }

  def ended(failed: Boolean): Unit = synchronized {
    state(active = false)
    this.failed = failed
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
