package io.tailrace.monitor

import java.time.Instant

import scala.xml.{NodeSeq, Utility}

import org.apache.spark.sql.functions.col
import org.apache.spark.sql.streaming.StreamingQueryProgress
import org.apache.spark.sql.tailrace.StreamAccess

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
    progresses.foreach(progress => query.add(progress, ProgressValues.of(progress, Nil)))
    val html = UiPage.of(Seq(query), now)
    val batches = progresses.map(_.batchId).distinct.size
    assert(batches >= 2 && (html \\ "rect").size == 3 * batches)
    val titles = (html \\ "title").map(_.text)
    assert(titles.exists(_.contains("7 rows read in")) && titles.exists(_.endsWith("7 wait")), titles)
    val rows = (html \\ "tr").map(row => (row \\ "td").map(_.text))
    assert(rows.contains(Seq("buffered rows", "7", "tailrace_state_rows")))
    assert(text(html).contains("It runs. The last micro-batch is"))
    val captions = (html \\ "caption").map(_.text)
    assert(
      captions.head == "query" && captions(1) == "stateStoreSave, index 0" && captions.size == 3,
      captions
    )
    query.ended(failed = true)
    assert(text(UiPage.of(Seq(query), now)).contains("It has ended."))
  }

  test("queries that run come first") {
    val Seq(first, second, third) = Seq("a", "b", "c").map(name => series(name, s"id-$name")): @unchecked
    first.ended(failed = false)
    val titles = (UiPage.of(Seq(first, second, third), now) \\ "h4").map(_.text)
    assert(titles == Seq("b", "c", "a"))
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
