// Spark's UI takes its pages as XML of Scala's.
// scalafix:off DisableSyntax.noXml
package io.tailrace.monitor

import java.time.format.DateTimeFormatter
import java.time.{Duration, Instant, ZoneOffset}
import java.util.Locale

import scala.xml.{Elem, NodeSeq, Text}

import io.tailrace.common.{ShownNames, Side}
import io.tailrace.explain._

/** The tab "Tailrace" of Spark's UI: for each query who holds its watermark, its last micro-batches as a chart, and all
  * of its numbers, which are those that Prometheus gets.
  *
  * {{{
  *   examples, clicks                contents, if there are several queries
  *   examples                        Running. Last micro-batch: 12.
  *     The watermark is 12:07. The stream of `clicked_at` holds it ...
  *     chart
  *     query                         the watermark                  12:07:00, 3 min ago
  *     tailrace.watermark            each host's progress: web-2    11:58:10, 12 min ago
  *     tailraceLabelJoin, index 0    buffered rows                  1,284
  * }}}
  */
private[monitor] object UiPage {

  /** @param queries in the order of their first starts */
  def of(queries: Seq[QuerySeries], now: Instant): NodeSeq =
    if (queries.isEmpty) <p>No streaming query has run in this application yet.</p>
    else {
      val (running, ended) = queries.partition(_.isActive)
      val ordered = running ++ ended
      contents(ordered) ++ ordered.map(section(_, now))
    }

  private def contents(queries: Seq[QuerySeries]): NodeSeq =
    if (queries.size < 2) NodeSeq.Empty
    else
      <nav aria-label="Queries"><ul>{
        queries.map { query =>
          val labels = query.labels.toMap
          <li><a href={s"#${anchor(query)}"}>{isolated(labels("query"))}</a>: {state(query)}</li>
        }
      }</ul></nav>

  private def anchor(query: QuerySeries): String = s"query-${query.labels.toMap.apply("query_id")}"

  private def state(query: QuerySeries): String =
    if (query.isActive) "running" else if (query.hasFailed) "failed" else "ended"

  private def section(query: QuerySeries, now: Instant): Elem = {
    val labels = query.labels.toMap
    val points = query.recent.points
    val last = points.lastOption.fold("")(point => s" Last micro-batch: ${point.batch}.")
    val id = if (labels("query") == labels("query_id")) "" else s" Id: ${labels("query_id")}."
    val held = WatermarkHolders.of(query)
    <section id={anchor(query)} style="margin-bottom: 3em">
      <h4>{isolated(labels("query"))}</h4>
      {if (held.isEmpty) NodeSeq.Empty else <p><b>{ShownNames.plain(held.mkString(" "))}</b></p>}
      <p>{state(query).capitalize + "." + last + id}</p>
      {BatchChart.of(points)}
      {parts(query).map { case (name, values) => table(name, values, now) }}
    </section>
  }

  /** The values by their owners, the most important first. */
  private def parts(query: QuerySeries): Seq[(String, Seq[(SeriesKey, Double)])] = {
    val shown = query.ownValues.filterNot { case (key, _) =>
      MetricCatalog.metrics(key.series).field == "active"
    }
    shown.groupBy { case (key, _) => nameOf(key) }.toSeq.sortBy { case (name, of) =>
      (of.map { case (key, _) => rank(key) }.min, name)
    }
  }

  /** The query and its streams, then Tailrace's own counts, operators, and sources. */
  private def rank(key: SeriesKey): Int = {
    val labels = key.labels.map(_._1)
    if (labels.contains("source")) 4
    else if (labels.contains("operator")) 3
    else
      MetricCatalog.groupOf(key.series) match {
        case ProgressValues.QueryPart => 0
        case ProgressValues.StreamPart => 1
        case _ => 2
      }
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

  /** A name of a user's, whatever its direction: it doesn't reorder the text around it. */
  private def isolated(name: String): Elem = <bdi>{name}</bdi>

  private def table(name: String, values: Seq[(SeriesKey, Double)], now: Instant): Elem =
    <table class="table table-bordered table-sm table-striped">
      <caption style="caption-side: top"><b>{isolated(name)}</b></caption>
      <thead><tr><th scope="col">metric</th><th scope="col" style="text-align: right">value</th><th scope="col">name for Prometheus</th></tr></thead>
      <tbody>{
      values.sortBy { case (key, _) => (MetricCatalog.place(key.series), key.labels.toString) }.map {
        case (key, value) =>
          val metric = MetricCatalog.metrics(key.series)
          val which = key.labels.collect { case (label, text) if metric.tells(label) => text }
          <tr>
          <td>{metric.help.replace(", in seconds since 1970", "")}{
            which.map(text => Seq(Text(": "), isolated(text)))
          }</td>
          <td style="text-align: right; white-space: nowrap">{MetricText.of(key.series, value, now)}</td>
          <td><code>{key.series}</code></td>
        </tr>
      }
    }</tbody>
    </table>
}

/** Says who holds back a query's watermark, in the sentences of `tailrace why`, by what its last progress has. */
private[monitor] object WatermarkHolders {
  private val Streams = "tailrace.watermark"
  private val Sides = "tailrace.syncJoin"

  def of(query: QuerySeries): Seq[String] = {
    val values = query.ownValues
    val sources = named(values, Streams).map { case (name, own) => source(name, own) }
    val streams = query.streams
    val facts = WatermarkFacts(
      level(values, ProgressValues.QueryPart, "watermark").map(micros),
      streams.followsLatest,
      // Spark's streams aren't all of them where Tailrace has a watermark of its own.
      if (sources.nonEmpty) Nil
      else
        streams.watermarks.map(stream => StreamFacts(stream.column, Some(stream.ms * 1000))) ++
          streams.unseen.map(StreamFacts(_, None)),
      sources = sources
    )
    val sides = named(values, Sides).flatMap { case (_, own) => waitingFor(own) }
    val known = facts.now.nonEmpty || facts.streams.nonEmpty
    // The hosts' low watermark becomes the query's with the next micro-batch.
    val ofWatermark = WatermarkText.of(facts).drop(if (facts.now.isEmpty && sources.nonEmpty) 1 else 0)
    (if (known || sources.nonEmpty) ofWatermark else Nil) ++ sides
  }

  private type Values = Seq[(SeriesKey, Double)]

  private def named(values: Values, group: String): Seq[(String, Values)] =
    values
      .filter { case (key, _) => MetricCatalog.groupOf(key.series) == group }
      // Under its default name, which is the end of the group's, an operator's values have none.
      .groupBy { case (key, _) => key.labels.toMap.getOrElse("name", group.stripPrefix("tailrace.")) }
      .toSeq
      .sortBy(_._1)

  private def source(name: String, own: Values): SourceFacts = SourceFacts(
    name,
    level(own, Streams, "lowWatermark").map(micros),
    level(own, Streams, "hosts").fold(0)(_.toInt),
    // The progress doesn't say which hosts have logged nothing.
    unseen = (Nil, 0),
    slowest = elements(own, Streams, "slowest.progress")
      .map { case (labels, time) => labels("host") -> micros(time) }
      .sortBy(_._2),
    holders = elements(own, Streams, "heldBy.lowWatermark").map { case (labels, _) => labels("holder") }
  )

  private def waitingFor(own: Values): Seq[String] = {
    val idle = elements(own, Sides, "heldBackBy.idleMs").toMap
    val lag = elements(own, Sides, "heldBackBy.lagMs").toMap
    elements(own, Sides, "heldBackBy.latest").sortBy(_._1("side")).flatMap { case (labels, time) =>
      val holder = HolderFacts(
        labels("partition"),
        Some(micros(time)),
        lag.get(labels).map(micros),
        idle.get(labels).fold(0L)(seconds => (seconds * 1e3).round),
        labels.get("condition").filter(_.nonEmpty)
      )
      val side = Side.values.find(_.name == labels("side"))
      side.toSeq.flatMap(one => WaitText.side(SyncSideFacts(one, None, Some(holder), Nil, None, None)))
    }
  }

  private def level(values: Values, group: String, field: String): Option[Double] =
    elements(values, group, field).headOption.map(_._2)

  private def elements(values: Values, group: String, field: String): Seq[(Map[String, String], Double)] = {
    val series = MetricCatalog.group(group).find(field).map(_.series)
    values.collect { case (key, value) if series.contains(key.series) => key.labels.toMap -> value }
  }

  private def micros(seconds: Double): Long = (seconds * 1e6).round
}

/** The last micro-batches of a query as charts, which need no script. Their bars have the width of the page, and their texts
  * the size of its texts, on a phone too.
  *
  * {{{
  *   rows read, 0 to 1,284 rows
  *   ▂ ▆ ▃ █ ▅                  a bar per micro-batch
  *   buffered rows, 0 to 812 rows
  *   ▁▂▃▃▄▄▅▅
  *   duration, 0 to 2.1 s
  *   ▂▂▂█▂
  *   12:00:00   12:02:00        when some of them began, and their numbers
  *   17         29
  * }}}
  */
private[monitor] object BatchChart {
  private val height = 60
  // A time of day takes a fifth of the width of a phone.
  private val mostTimes = 5
  private val quiet = "color: #666"

  private final case class Row(
      name: String,
      color: String,
      value: BatchPoint => Double,
      text: Double => String
  )

  private val rows = Seq(
    Row("rows read", "#1b6b93", _.rows.toDouble, value => s"${count(value)} rows"),
    Row("buffered rows", "#c8553d", _.waiting.toDouble, value => s"${count(value)} rows"),
    Row("duration", "#7a6c5d", _.seconds, value => "%.1f s".formatLocal(Locale.ROOT, value))
  )

  def of(points: Seq[BatchPoint]): NodeSeq =
    if (points.isEmpty) NodeSeq.Empty
    else {
      val name = s"The last ${points.size} micro-batches, ${points.head.batch} to ${points.last.batch}"
      <figure aria-label={name} style="max-width: 900px">
        {rows.map(bars(_, points))}
        {times(points)}
        <figcaption style={quiet}>When micro-batches began, UTC, and their numbers</figcaption>
      </figure>
    }

  private def bars(row: Row, points: Seq[BatchPoint]): Elem = {
    val most = points.map(row.value).max
    val range = if (most > 0) s"0 to ${row.text(most)}" else s"always ${row.text(0)}"
    <div style="margin-bottom: 1em">
      <div>{row.name}, <span style={quiet}>{range}</span></div>
      <svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label={s"${row.name}, $range"}
           viewBox={s"0 0 ${RecentBatches.Most} $height"} preserveAspectRatio="none"
           style={s"display: block; width: 100%; height: ${height}px; border-bottom: 1px solid #bbb"}>{
      points.zipWithIndex.map { case (point, i) =>
        val tall = if (most > 0) row.value(point) / most * height else 0d
        <rect x={i.toString} y={number(height - tall)} width="0.8" height={number(tall)} fill={
          row.color
        }><title>{told(point)}</title></rect>
      }
    }</svg>
    </div>
  }

  /** The axis: when some of the micro-batches began. */
  private def times(points: Seq[BatchPoint]): Elem = {
    val every = RecentBatches.Most / mostTimes
    <div style={s"position: relative; height: 3em; white-space: nowrap; font-size: 12px; $quiet"}>{
      points.zipWithIndex.collect {
        case (point, i) if i % every == 0 =>
          <span style={s"position: absolute; left: ${number(100.0 * i / RecentBatches.Most)}%"}>{
            Clock.format(point.began)
          }<br/>{count(point.batch.toDouble)}</span>
      }
    }</div>
  }

  private val Clock = DateTimeFormatter.ofPattern("HH:mm:ss").withZone(ZoneOffset.UTC)

  private def told(point: BatchPoint): String =
    s"micro-batch ${point.batch}, ${point.began}: ${count(point.rows.toDouble)} rows read in " +
      "%.2f s, ".formatLocal(Locale.ROOT, point.seconds) + s"${count(point.waiting.toDouble)} buffered"

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
