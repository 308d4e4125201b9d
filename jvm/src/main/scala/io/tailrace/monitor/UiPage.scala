// Spark's UI takes its pages as XML of Scala's.
// scalafix:off DisableSyntax.noXml
package io.tailrace.monitor

import java.time.{Duration, Instant}
import java.util.Locale

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

/** The last micro-batches of a query as an SVG, which needs no script.
  *
  * {{{
  *   rows read        | ▂ ▆ ▃ █ ▅       a bar per micro-batch
  *   rows that wait   | ▁▂▃▃▄▄▅▅        likewise
  *   seconds          | ▂▂▂█▂           of a micro-batch
  * }}}
  */
private[monitor] object BatchChart {
  private val (width, height, gap, left) = (900, 60, 28, 150)

  private final case class Row(
      name: String,
      color: String,
      value: BatchPoint => Double,
      text: Double => String
  )

  private val rows = Seq(
    Row("rows read", "#1b6b93", _.rows.toDouble, count),
    Row("rows that wait", "#c8553d", _.waiting.toDouble, count),
    Row("seconds", "#7a6c5d", _.seconds, value => "%.1f".formatLocal(Locale.ROOT, value))
  )

  def of(points: Seq[BatchPoint]): NodeSeq =
    if (points.isEmpty) NodeSeq.Empty
    else {
      val name =
        s"The last ${points.size} micro-batches, ${points.head.batch} to ${points.last.batch}: rows read, rows that wait, seconds"
      <svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label={name} width={width.toString}
           height={(rows.size * (height + gap)).toString} viewBox={
        s"0 0 $width ${rows.size * (height + gap)}"
      }
           style="max-width: 100%; font: 12px sans-serif">{
        rows.zipWithIndex.map { case (row, i) => bars(row, points, i * (height + gap) + gap / 2) }
      }</svg>
    }

  private def bars(row: Row, points: Seq[BatchPoint], top: Int): Elem = {
    val most = points.map(row.value).max
    val step = (width - left).toDouble / RecentBatches.Most
    <g>
      <text x="0" y={(top + 12).toString}>{row.name}</text>
      <text x="0" y={(top + 28).toString} fill="#666">{s"at most ${row.text(most)}"}</text>
      <line x1={left.toString} y1={(top + height).toString} x2={width.toString} y2={(top + height).toString}
            stroke="#bbb"/>
      {
      points.zipWithIndex.map { case (point, i) =>
        val tall = if (most > 0) row.value(point) / most * height else 0d
        <rect x={number(left + i * step)} y={number(top + height - tall)} width={number(step - 2)}
              height={number(tall)} fill={row.color}><title>{told(point)}</title></rect>
      }
    }
    </g>
  }

  private def told(point: BatchPoint): String =
    s"micro-batch ${point.batch}, ${point.began}: ${count(point.rows.toDouble)} rows read in " +
      "%.2f s, ".formatLocal(Locale.ROOT, point.seconds) + s"${count(point.waiting.toDouble)} wait"

  private def count(value: Double): String = MetricText.count(value)
  private def number(value: Double): String = "%.1f".formatLocal(Locale.ROOT, value)
}

/** Values of series, for people. The end of a series' name is its unit. */
private[monitor] object MetricText {
  private val Units = Seq("B", "kB", "MB", "GB", "TB")

  def of(series: String, value: Double, now: Instant): String = series.stripSuffix("_total") match {
    case name if name.endsWith("_timestamp_seconds") => time(value, now)
    case name if name.endsWith("_seconds") => "%,.1f s".formatLocal(Locale.ROOT, value)
    case name if name.endsWith("_bytes") => bytes(value)
    case _ if value == value.toLong.toDouble => count(value)
    case _ => "%,.3f".formatLocal(Locale.ROOT, value)
  }

  def count(value: Double): String = "%,d".formatLocal(Locale.ROOT, value.toLong)

  private def bytes(value: Double): String = {
    val power =
      Iterator.iterate(value)(_ / 1000).take(Units.size).takeWhile(_ >= 1000).size.min(Units.size - 1)
    val scaled = value / Math.pow(1000, power.toDouble)
    if (power == 0) s"${count(value)} B" else "%.1f %s".formatLocal(Locale.ROOT, scaled, Units(power))
  }

  private def time(seconds: Double, now: Instant): String = {
    val at = Instant.ofEpochMilli((seconds * 1000).toLong)
    val age = Duration.between(at, now)
    if (age.isNegative) s"$at, ${span(age.negated)} ahead" else s"$at, ${span(age)} ago"
  }

  /** Two units are enough: 3 d 4 h, 5 min 10 s, 7 s. */
  private def span(age: Duration): String = {
    val parts = Seq("d" -> age.toDays, "h" -> age.toHoursPart.toLong, "min" -> age.toMinutesPart.toLong) :+
      ("s" -> age.toSecondsPart.toLong)
    val shown = parts.dropWhile(_._2 == 0).take(2)
    if (shown.isEmpty) "0 s" else shown.map { case (unit, n) => s"$n $unit" }.mkString(" ")
  }
}
