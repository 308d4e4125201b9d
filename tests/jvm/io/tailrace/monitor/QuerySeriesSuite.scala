package io.tailrace.monitor

import java.time.Instant

import org.apache.spark.sql.catalyst.expressions.GenericRowWithSchema
import org.apache.spark.sql.streaming.StreamingQueryProgress
import org.apache.spark.sql.tailrace.{StreamAccess, StreamWatermark}

import io.tailrace.replay.{OriginGaps, ReplayCounts}

final class QuerySeriesSuite extends CountedProgress {
  private val labels = Seq("query" -> "q", "query_id" -> "1")
  private def series() = new QuerySeries(labels)

  private def value(of: QuerySeries, name: String, more: (String, String)*): Option[Double] =
    of.values.toMap.get(SeriesKey(s"tailrace_$name", labels ++ more))

  test("counts are summed up, and levels are the last ones") {
    val all = series()
    progresses.foreach(add(all, _))
    val batches = progresses.size.toDouble
    assert(batches >= 2)
    assert(value(all, "query_batches_total").contains(batches))
    assert(value(all, "query_batch").contains(batches - 1))
    assert(value(all, "query_input_rows_total").contains(4d))
    val operator = Seq("operator" -> "stateStoreSave", "index" -> "0")
    assert(value(all, "state_late_rows_total", operator: _*).contains(1d))
    assert(
      value(all, "state_rows", operator: _*).contains(
        progresses.last.stateOperators.head.numRowsTotal.toDouble
      )
    )
    val last = Instant.parse(progresses.last.eventTime.get("watermark"))
    assert(value(all, "query_watermark_timestamp_seconds").contains(last.getEpochSecond.toDouble))
    val milliseconds = progresses.map(_.batchDuration).sum
    assert(Math.abs(value(all, "query_batch_seconds_total").get - milliseconds / 1000d) < 1e-9)
    // An operator of Spark's own has further metrics, under their names.
    assert(all.values.exists(_._1.series == "tailrace_state_metric"))
    assert(value(all, "query_active").contains(1d))
  }

  test("a query's streams have their watermarks, and the least where two have columns of one name") {
    val all = series()
    def stream(column: String) = value(all, "stream_watermark_timestamp_seconds", "column" -> column)
    val streams = Seq("served_at" -> 3500L, "clicked_at" -> 2000L, "served_at" -> 3000L)
    add(all, progresses.head, streams.map { case (column, ms) => StreamWatermark(column, ms) })
    assert(stream("served_at").contains(3d) && stream("clicked_at").contains(2d))
    // Those of a query that is gone aren't known.
    add(all, progresses.last)
    assert(stream("served_at").isEmpty)
  }

  private def withReplays(counts: ReplayCounts, name: String): StreamingQueryProgress = {
    val observed = Map(name -> counts.toRow, "mine" -> new GenericRowWithSchema(Array(1L), OriginGaps.Schema))
    StreamAccess.observing(progresses.head, observed)
  }

  test("what operators report has the name of the operator, and lists have a series for each element") {
    val all = series()
    add(
      all,
      withReplays(
        ReplayCounts(5, 2, mostGaps = Seq(OriginGaps(7, 3, 9), OriginGaps(8, 0, 1))),
        "tailrace.replays.clicks"
      )
    )
    val name = "name" -> "clicks"
    assert(value(all, "replays_dropped_total", name).contains(2d))
    assert(value(all, "replays_origin_gaps", name, "pid" -> "7", "partition" -> "3").contains(9d))
    // The next batch has other origins, and none of the old ones stays.
    add(all, withReplays(ReplayCounts(1, 1, mostGaps = Seq(OriginGaps(8, 0, 1))), "tailrace.replays.clicks"))
    assert(value(all, "replays_dropped_total", name).contains(3d))
    assert(value(all, "replays_origin_gaps", name, "pid" -> "7", "partition" -> "3").isEmpty)
    // A progress without them says nothing new.
    add(all, progresses.head)
    assert(value(all, "replays_dropped_total", name).contains(3d))
    assert(value(all, "replays_origin_gaps", name, "pid" -> "8", "partition" -> "0").contains(1d))
    assert(all.values.forall(!_._1.labels.exists(_._2 == "mine")))
  }

  test("a query that has ended keeps its numbers") {
    val all = series()
    add(all, progresses.head)
    all.ended(failed = true)
    assert(value(all, "query_active").contains(0d))
    assert(value(all, "query_failures_total").contains(1d))
    assert(value(all, "query_batch").contains(0d))
    all.started()
    assert(value(all, "query_active").contains(1d))
    all.ended(failed = false)
    assert(value(all, "query_failures_total").contains(1d))
  }

  test("a count is there before it grows, and two sources of one name are two") {
    assert(value(series(), "query_failures_total").contains(0d))
    val all = series()
    val source = progresses.head.sources.head
    add(all, StreamAccess.reading(progresses.head, Seq(source, source)))
    val keys = all.values.map(_._1)
    assert(keys.distinct.size == keys.size)
    assert(keys.count(_.series == "tailrace_source_input_rows_total") == 2)
  }

  test("labels of all kinds are escaped for Prometheus") {
    val key = SeriesKey("tailrace_state_rows", Seq("query" -> "a \"b\"\\\n", "query_id" -> "1"))
    val text =
      PrometheusText.of(Seq(key -> 3d, key.copy(series = "tailrace_query_batch_seconds_total") -> 0.25))
    assert(text == """# HELP tailrace_query_batch_seconds_total time of micro-batches, in seconds
      |# TYPE tailrace_query_batch_seconds_total counter
      |tailrace_query_batch_seconds_total{query="a \"b\"\\\n",query_id="1"} 0.25
      |# HELP tailrace_state_rows buffered rows
      |# TYPE tailrace_state_rows gauge
      |tailrace_state_rows{query="a \"b\"\\\n",query_id="1"} 3
      |""".stripMargin)
  }
}
