// Spark's UI takes its pages as XML of Scala's.
// scalafix:off DisableSyntax.noXml
package io.tailrace.monitor

import java.time.Instant

import scala.xml.{Elem, NodeSeq}

/** The tab "Tailrace" of Spark's UI: for each query its last micro-batches as a chart, and all of its numbers, which are
  * those that Prometheus gets.
  *
  * {{{
  *   examples      runs, micro-batch 12
  *     chart
  *     query                       the watermark                  12:07:00, 3 min ago
  *     tailraceLabelJoin, index 0  rows that wait                 1,284
  *     tailrace.watermark          each host's progress: web-2    11:58:10, 12 min ago
  * }}}
  */
private[monitor] object UiPage {

  /** @param queries in the order of their first starts */
  def of(queries: Seq[QuerySeries], now: Instant): NodeSeq =
    if (queries.isEmpty) <p>No streaming query has run in this application yet.</p>
    else {
      val (running, ended) = queries.partition(_.isActive)
      running.map(section(_, now)) ++ ended.map(section(_, now))
    }

  private def section(query: QuerySeries, now: Instant): Elem = {
    val labels = query.labels.toMap
    val points = query.recent.points
    val state = if (query.isActive) "runs" else "has ended"
    <section id={s"query-${labels("query_id")}"} style="margin-bottom: 3em">
      <h4>{labels("query")}</h4>
      <p>{points.lastOption.fold(s"It $state.")(last => s"It $state. The last micro-batch is ${last.batch}.")}
         {if (labels("query") == labels("query_id")) "" else s"Id: ${labels("query_id")}."}</p>
      {BatchChart.of(points)}
      {parts(query).map { case (name, values) => table(name, values, now) }}
    </section>
  }

  /** The values by their owners. */
  private def parts(query: QuerySeries): Seq[(String, Seq[(SeriesKey, Double)])] = {
    val shown = query.ownValues.filterNot { case (key, _) =>
      MetricCatalog.metrics(key.series).field == "active"
    }
    shown.groupBy { case (key, _) => nameOf(key) }.toSeq.sortBy { case (name, of) =>
      (rank(of.head._1), name)
    }
  }

  /** The query, then Tailrace's own counts, operators, and sources. */
  private def rank(key: SeriesKey): Int = {
    val labels = key.labels.map(_._1)
    if (labels.contains("source")) 3
    else if (labels.contains("operator")) 2
    else if (MetricCatalog.groupOf(key.series) == ProgressValues.QueryPart) 0
    else 1
  }

  private def nameOf(key: SeriesKey): String = {
    val labels = key.labels.toMap
    val kind = MetricCatalog.groupOf(key.series)
    (labels.get("operator").orElse(labels.get("source")), labels.get("name")) match {
      case (Some(operator), _) => s"$operator, index ${labels("index")}"
      case (_, Some(name)) => s"$kind: $name"
      case _ => kind
    }
  }

  private def table(name: String, values: Seq[(SeriesKey, Double)], now: Instant): Elem =
    <table class="table table-bordered table-sm table-striped">
      <caption style="caption-side: top"><b>{name}</b></caption>
      <thead><tr><th scope="col">what</th><th scope="col" style="text-align: right">value</th><th scope="col">series</th></tr></thead>
      <tbody>{
      values.sortBy { case (key, _) => (key.series, key.labels.toString) }.map { case (key, value) =>
        val metric = MetricCatalog.metrics(key.series)
        val which = key.labels.collect { case (label, text) if metric.tells(label) => text }
        <tr>
          <td>{(metric.help.replace(", in seconds since 1970", "") +: which).mkString(": ")}</td>
          <td style="text-align: right; white-space: nowrap">{MetricText.of(key.series, value, now)}</td>
          <td><code>{key.series}</code></td>
        </tr>
      }
    }</tbody>
    </table>
}
