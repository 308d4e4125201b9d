package io.tailrace.monitor

import java.nio.charset.StandardCharsets.UTF_8

import org.json4s.DefaultFormats
import org.json4s.jackson.Serialization

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

  /** The owner of a series: see [[MetricGroup]]. */
  def groupOf(series: String): String = groupOfSeries(series)

  val metrics: Map[String, Metric] = groups.flatMap(_.metrics).map(metric => metric.series -> metric).toMap
}
