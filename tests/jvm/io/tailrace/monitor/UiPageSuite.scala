package io.tailrace.monitor

import java.time.Instant

import scala.xml.{NodeSeq, Utility}

import org.apache.spark.sql.functions.col
import org.apache.spark.sql.streaming.StreamingQueryProgress
import org.apache.spark.sql.tailrace.{QueryStreams, StreamAccess, StreamWatermark}

import io.tailrace.testkit.SparkSuite

final class UiPageSuite extends SparkSuite {
  private val now = Instant.parse("2026-01-01T12:00:00Z")
  private val hostile = "<script>alert('1')</script>"

  private lazy val progresses: Seq[StreamingQueryProgress] = {
    implicit val context = spark.sqlContext
    import spark.implicits._
    val input = org.apache.spark.sql.execution.streaming.runtime.MemoryStream[Long]
    withDirectory { root =>
      val query = input
        .toDF()
        .groupBy(col("value") % 10)
        .count()
        .writeStream
        .outputMode("update")
        .option("checkpointLocation", root.getPath)
        .format("noop")
        .start()
      try
        Seq(3, 0, 7).foreach { n =>
          input.addData(0L until n.toLong)
          query.processAllAvailable()
        }
      finally query.stop()
      query.recentProgress.toSeq.filter(_.stateOperators.nonEmpty)
    }
  }

  private def series(name: String, id: String): QuerySeries =
    new QuerySeries(Seq("query" -> name, "query_id" -> id))

  private def text(html: NodeSeq): String = html.text.replaceAll("\\s+", " ")

  test("without a query the page says so") {
    assert(text(UiPage.of(Nil, now)).contains("No streaming query has run in this application yet."))
  }

  test(
    "a query has a bar for each micro-batch in each chart, and its numbers with their names for Prometheus"
  ) {
    val query = series("counts", "id-1")
    progresses.foreach(progress => query.add(progress, ProgressValues.of(progress, Nil), QueryStreams()))
    val html = UiPage.of(Seq(query), now)
    val batches = progresses.map(_.batchId).distinct.size
    assert(batches >= 2 && (html \\ "rect").size == 3 * batches)
    val titles = (html \\ "title").map(_.text)
    assert(titles.exists(_.contains("7 rows read in")) && titles.exists(_.endsWith("7 buffered")), titles)
    val began = Instant.parse(progresses.head.timestamp)
    val chart = text(html \\ "figure")
    assert(chart.contains("rows read, 0 to 7 rows") && chart.contains("duration, 0 to "), chart)
    assert(chart.contains(s"${began.toString.slice(11, 19)}0"), chart)
    val svgs = html \\ "svg"
    assert(svgs.size == 3 && svgs.forall(svg => (svg \ "@width").isEmpty), "as wide as the page")
    assert((svgs \\ "text").isEmpty, "texts keep their size on a phone")
    val rows = (html \\ "tr").map(row => (row \\ "td").map(_.text))
    assert(rows.contains(Seq("buffered rows", "7", "tailrace_state_rows")))
    assert(text(html).contains(s"Running. Last micro-batch: ${progresses.last.batchId}. Id: id-1."))
    assert((html \\ "nav").isEmpty, "one query needs no contents")
    val captions = (html \\ "caption").map(_.text)
    assert(
      captions.head == "query" && captions(1) == "stateStoreSave, index 0" && captions.size == 3,
      captions
    )
    query.ended(failed = true)
    assert(text(UiPage.of(Seq(query), now)).contains("Failed. Last micro-batch"))
    query.started()
    query.ended(failed = false)
    assert(text(UiPage.of(Seq(query), now)).contains("Ended. Last micro-batch"))
  }

  test("a chart without rows says so, and a long one has a few times") {
    val points = (0L until 60L).map(n => BatchPoint(n, now.plusSeconds(n), 0.5, 0, 0))
    assert(text(BatchChart.of(points.take(1))).contains("rows read, always 0 rows"))
    assert((BatchChart.of(points) \\ "span").map(_.text).count(_.startsWith("12:00:")) == 5)
  }

  private def value(group: String, field: String, labels: (String, String)*)(number: Double): MetricValue =
    MetricValue(MetricCatalog.group(group).find(field).get, labels, number)

  private def held(streams: QueryStreams, values: MetricValue*): String = {
    val query = series("counts", "id-1")
    query.add(progresses.last, values.groupBy(_.metric.series), streams)
    text(UiPage.of(Seq(query), now) \\ "section" \ "p").trim
  }

  test("the page of a query begins with who holds its watermark, in the sentences of why") {
    val noon = now.getEpochSecond.toDouble
    val ofQuery = value(ProgressValues.QueryPart, "watermark")(noon)
    val streams =
      Seq(
        StreamWatermark("served_at", now.toEpochMilli + 60000),
        StreamWatermark("clicked_at", now.toEpochMilli)
      )
    assert(
      held(QueryStreams(streams), ofQuery).startsWith(
        "The watermark is 2026-01-01T12:00:00Z. The stream of `clicked_at` holds it, the one that is furthest behind: " +
          "`clicked_at` is at 2026-01-01T12:00:00Z, `served_at` is at 2026-01-01T12:01:00Z."
      )
    )
    assert(
      held(QueryStreams(streams, followsLatest = true), ofQuery)
        .contains("The stream of `served_at` holds it")
    )
    assert(
      held(QueryStreams(streams.take(1), Seq("clicked_at"))).startsWith(
        "There is no watermark yet. The stream of `clicked_at` holds it: no row of it has arrived since the query"
      )
    )
    assert(held(QueryStreams()).startsWith("Running."), "a query without a watermark")
  }

  test("a host or a partition that holds the watermark is named") {
    val noon = now.getEpochSecond.toDouble
    def ofHosts(field: String, labels: (String, String)*)(number: Double) =
      value("tailrace.watermark", field, ("name" -> "logs") +: labels: _*)(number)
    assert(
      held(
        QueryStreams(Seq(StreamWatermark("t", 0))),
        value(ProgressValues.QueryPart, "watermark")(noon),
        ofHosts("lowWatermark")(noon),
        ofHosts("hosts")(2),
        ofHosts("slowest.progress", "host" -> "web-2")(noon + 60),
        ofHosts("slowest.progress", "host" -> "web-1")(noon)
      ).startsWith(
        "The watermark is 2026-01-01T12:00:00Z. The 2 hosts of the watermark 'logs' have the low watermark " +
          "2026-01-01T12:00:00Z; host web-1 has been read up to 2026-01-01T12:00:00Z, and holds it."
      )
    )
    val unnamed = value("tailrace.watermark", "hosts") _
    assert(
      held(QueryStreams(), unnamed(2), value("tailrace.watermark", "lowWatermark")(noon)).startsWith(
        "The 2 hosts of the watermark 'watermark' have the low watermark 2026-01-01T12:00:00Z."
      ),
      "before the query has a watermark of its own"
    )
    val labels = Seq("side" -> "right", "partition" -> "clicks-3", "condition" -> "stalled")
    def ofSync(field: String)(number: Double) = value("tailrace.syncJoin", field, labels: _*)(number)
    assert(
      held(
        QueryStreams(),
        ofSync("heldBackBy.latest")(noon),
        ofSync("heldBackBy.lagMs")(60),
        ofSync("heldBackBy.idleMs")(2)
      ).contains(
        "The right side waits for partition clicks-3: it has been read up to 2026-01-01T12:00:00Z, 1 min behind the " +
          "furthest one, and was idle for 2 s while others had rows. It is stalled."
      )
    )
  }

  test("another query that holds the watermark at the server is named") {
    val noon = now.getEpochSecond.toDouble
    def ofHosts(field: String, labels: (String, String)*)(number: Double) =
      value("tailrace.watermark", field, ("name" -> "logs") +: labels: _*)(number)
    val values = Seq(
      value(ProgressValues.QueryPart, "watermark")(noon),
      ofHosts("lowWatermark")(noon),
      ofHosts("hosts")(2),
      ofHosts("slowest.progress", "host" -> "web-2")(noon + 60)
    )
    val holder = ofHosts("heldBy.lowWatermark", "holder" -> "hourly-b")(noon)
    assert(
      held(QueryStreams(), values :+ holder: _*)
        .contains("12:01:00Z; at the watermark server it waits for the query 'hourly-b'.")
    )
    assert(held(QueryStreams(), values: _*).contains("it waits at a watermark server for another query"))
  }

  test("names with marks of direction don't reorder the text around them") {
    val noon = now.getEpochSecond.toDouble
    val turned = "web\u202e1"
    val query = series(turned, "id")
    val values = Seq(
      value("tailrace.watermark", "lowWatermark", "name" -> turned)(noon),
      value("tailrace.watermark", "hosts", "name" -> turned)(2),
      value("tailrace.watermark", "slowest.progress", "name" -> turned, "host" -> turned)(noon)
    )
    query.add(progresses.last, values.groupBy(_.metric.series), QueryStreams())
    val html = UiPage.of(Seq(query, series("other", "id-2")), now)
    val isolates = (html \\ "bdi").filter(_.text.contains("\u202e"))
    assert(isolates.size == 4, "contents, heading, caption, and row")
    val others = html.toString.replaceAll("(?s)<bdi>.*?</bdi>", "")
    assert(!others.contains("\u202e") && others.contains("\\u202e"), others)
  }

  test("queries that run come first, and contents lead to each") {
    val Seq(first, second, third) = Seq("a", "b", "c").map(name => series(name, s"id-$name")): @unchecked
    first.ended(failed = false)
    val html = UiPage.of(Seq(first, second, third), now)
    assert((html \\ "h4").map(_.text) == Seq("b", "c", "a"))
    assert((html \\ "nav" \\ "li").map(_.text) == Seq("b: running", "c: running", "a: ended"))
    val links = (html \\ "nav" \\ "a").map(a => (a \ "@href").text)
    assert(links == (html \\ "section").map(section => s"#${(section \ "@id").text}"))
  }

  test("a name is text") {
    val html = UiPage.of(Seq(series(hostile, "id")), now)
    assert((html \\ "script").isEmpty && html.toString.contains(Utility.escape(hostile)))
  }

  test("the last micro-batches are kept, each once") {
    val many = (1L to 100L).flatMap(n => Seq(n, n))
    val all = many.foldLeft(RecentBatches()) { (recent, n) =>
      recent.add(StreamAccess.numbered(progresses.head, n))
    }
    assert(all.points.map(_.batch) == (41L to 100L))
  }

  test("values are shown with their units, and times with their age") {
    def shown(series: String, value: Double) = MetricText.of(series, value, now)
    assert(shown("a_bytes", 999) == "999 B" && shown("a_bytes", 1000) == "1.0 kB")
    assert(shown("a_bytes", 12345678) == "12.3 MB" && shown("a_bytes", 5e15) == "5000.0 TB")
    assert(shown("a_rows_total", 1234567) == "1,234,567" && shown("a_share", 0.5) == "0.500")
    assert(shown("a_seconds_total", 1234.56) == "1,234.6 s")
    val seconds = now.getEpochSecond.toDouble
    assert(shown("a_timestamp_seconds", seconds - 0.5).startsWith("2026-01-01T11:59:59.500Z, 0 s ago"))
    assert(shown("a_timestamp_seconds", seconds - 190).endsWith("11:56:50Z, 3 min 10 s ago"))
    assert(shown("a_timestamp_seconds", seconds - 86400 * 3 - 3600 * 4).endsWith("3 d 4 h ago"))
    assert(shown("a_timestamp_seconds", seconds + 60).endsWith("1 min 0 s ahead"))
  }
}
