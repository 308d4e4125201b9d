"""`tailrace.testing`: streams that a test feeds, and the clock that it moves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import functions as f

import tailrace
from kept_batches import KeptBatches
from served_clicks import CLICKED, SERVED, labels
from tailrace.testing import StreamTest, at

if TYPE_CHECKING:
    import datetime as dt
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.mark.contract
def test_a_row_waits_for_the_clock(stream_test: StreamTest) -> None:
    served, clicks = stream_test.source(SERVED), stream_test.source(CLICKED)
    query = stream_test.query(labels(served.frame, clicks.frame))
    assert query.watermark() is None
    assert query.waiting() == {}
    served.add((7, "12:00"), {"user": 8, "served_at": at("12:01")})
    clicks.add((7, "12:02"))
    query.run()
    assert query.rows() == []
    assert query.watermark() == at("11:51")
    assert query.watermarks() == {"served_at": at("11:51"), "clicked_at": at("11:52")}
    assert query.waiting() == {"tailraceLabelJoin": 3}
    # The last moment at which the first one waits.
    query.advance("12:39:59.999")
    assert query.rows() == []
    query.advance("12:40")
    assert query.watermark() == at("12:30")
    assert stream_test.now == at("12:40")
    assert query.rows("user", "labels.clicked_at") == [(7, [at("12:02")])]
    query.advance("13:00")
    assert query.new_rows() == [
        {"user": 7, "served_at": at("12:00"), "labels": [{"clicked_at": at("12:02")}]},
        {"user": 8, "served_at": at("12:01"), "labels": []},
    ]
    assert query.new_rows() == []
    assert query.waiting() == {"tailraceLabelJoin": 0}
    assert query.progress()["stateOperators"][0]["customMetrics"]["lateLeftRows"] == 0


def test_rows_behind_the_clock_are_late(stream_test: StreamTest) -> None:
    served, clicks = stream_test.source(SERVED), stream_test.source(CLICKED)
    query = stream_test.query(labels(served.frame, clicks.frame))
    served.add((7, "12:00"))
    query.advance("13:30")
    served.add((8, "12:00"), (9, "13:25"))
    query.run()
    query.advance("15:00")
    assert query.rows("user") == [(7,), (9,)]


def test_the_clock_is_that_of_current_timestamp_and_does_not_go_back(stream_test: StreamTest) -> None:
    source = stream_test.source("id int")
    query = stream_test.query(source.frame.withColumn("now", f.current_timestamp()))
    source.add((1,))
    query.run()
    query.advance("12:30")
    query.advance("12:30")
    for back in (query.advance, stream_test.advance):
        with pytest.raises(ValueError, match="it is 2026-01-01 12:30:00, and 2026-01-01 12:10:00 is over"):
            back("12:10")
    source.add((2,))
    query.run()
    assert query.rows() == [{"id": 1, "now": at("12:00")}, {"id": 2, "now": at("12:30")}]


def test_a_restart_goes_on(stream_test: StreamTest) -> None:
    served, clicks = stream_test.source(SERVED), stream_test.source(CLICKED)
    frame = labels(served.frame, clicks.frame)
    query = stream_test.query(frame)
    served.add((7, "12:00"))
    query.run()
    query.restart(frame.withColumn("version", f.lit(2)))
    clicks.add((7, "12:10"))
    query.advance("13:00")
    assert query.rows("user", "size(labels)", "version") == [(7, 1, 2)]
    assert query.changes() == []


def test_rows_with_binary_values_that_come_again_are_the_same(stream_test: StreamTest) -> None:
    source = stream_test.source("id long")
    rows = source.frame.selectExpr("id", "binary(string(id)) AS b").withColumn("bs", f.array("b"))
    query = stream_test.query(rows)
    source.add(*((i,) for i in range(9)))
    query.run()
    query.stop()
    # The batch counts as one that was cut off.
    for file in (query.checkpoint / "commits").glob("*0*"):
        file.unlink()
    query.restart()
    query.run()
    assert (len(query.rows()), query.changes()) == (9, [])


def test_the_delay_of_a_watermark_changes_at_a_restart(stream_test: StreamTest) -> None:
    served, clicks = stream_test.source(SERVED), stream_test.source(CLICKED)
    query = stream_test.query(labels(served.frame, clicks.frame))
    served.add((7, "12:00"), (8, "12:20"))
    query.advance("12:20")
    assert query.watermark() == at("12:10")
    # A longer one stands still until it has caught up; a shorter one goes on at once.
    query.restart(labels(served.frame, clicks.frame, "40 minutes"))
    query.advance("12:45")
    assert query.watermark() == at("12:10")
    query.advance("13:10")
    assert query.watermark() == at("12:30")
    assert query.rows("user") == [(7,)]
    query.restart(labels(served.frame, clicks.frame, "5 minutes"))
    query.advance("13:11")
    assert query.watermark() == at("13:06")
    assert query.rows("user") == [(7,), (8,)]


def test_each_version_of_a_query_gives_rows_of_its_own_columns(stream_test: StreamTest) -> None:
    source = stream_test.source("k int, j int")
    query = stream_test.query(source.frame)
    source.add((1, 100))
    query.run()
    query.restart(source.frame.select("j", "k", f.lit("new").alias("version")))
    source.add((2, 200))
    query.run()
    assert query.rows() == [{"k": 1, "j": 100}, {"j": 200, "k": 2, "version": "new"}]
    assert query.rows("k") == [(1,), (2,)]


def test_a_query_that_spark_refuses_leaves_the_others(spark: SparkSession, tmp_path: Path) -> None:
    with StreamTest(spark, tmp_path) as test:
        source = test.source("k int")
        other = test.query(source.frame, "other")
        with pytest.raises(AnalysisException, match="watermark"):
            test.query(source.frame.groupBy("k").count())
        other.run()
    assert other.is_stopped


def test_a_stopped_query_doesnt_run(stream_test: StreamTest) -> None:
    source = stream_test.source("k int")
    query = stream_test.query(source.frame)
    with pytest.raises(ValueError, match="a query 'query' runs already"):
        stream_test.query(source.frame)
    query.stop()
    for call in (query.run, lambda: query.advance("13:00")):
        with pytest.raises(RuntimeError, match=r"the query of 'query' is stopped: call its restart\(\)"):
            call()
    source.add((1,))
    again = stream_test.query(source.frame)
    again.run()
    assert again.rows("k") == [(1,)]


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["min", "max"])
def test_event_time_moves_as_by_rows(spark: SparkSession, tmp_path: Path, policy: str) -> None:
    """The same watermarks as after a row in each stream, and then a row in one of them."""

    def watermarks(directory: Path, *, rows: bool) -> list[dt.datetime | None]:
        with StreamTest(spark, directory, "12:00") as test:
            one, other = test.source(SERVED), test.source(SERVED)
            later = other.frame.withWatermark("served_at", "30 minutes")
            query = test.query(
                one.frame.withWatermark("served_at", "10 minutes").union(later).dropDuplicates()
            )
            found: list[dt.datetime | None] = []
            if rows:
                one.add((1, "13:00"))
                other.add((1, "13:00"))
                query.run()
            else:
                query.advance("13:00")
            found.append(query.watermark())
            for source, time in ((other, "14:00"), (one, "13:20"), (other, "15:00")):
                source.add((2, time))
                query.run()
                found.append(query.watermark())
            return found

    spark.conf.set("spark.sql.streaming.multipleWatermarkPolicy", policy)
    try:
        expected = watermarks(tmp_path / "rows", rows=True)
        assert watermarks(tmp_path / "advance", rows=False) == expected
        assert len(set(expected)) > 2
    finally:
        spark.conf.unset("spark.sql.streaming.multipleWatermarkPolicy")


def test_a_silent_host_follows_the_clock(stream_test: StreamTest) -> None:
    source = stream_test.source("host string, t timestamp")
    logs = tailrace.accurate_watermark(
        source.frame, "t", host="host", hosts=["a", "b"], idle_after="30 minutes"
    )
    query = stream_test.query(logs)
    source.add(("a", "12:00"), ("b", "12:00"))
    query.run()
    for minute in range(5, 60, 5):
        source.add(("a", f"12:{minute:02}"))
        query.advance(f"12:{minute:02}")
    assert query.progress()["observedMetrics"]["tailrace.watermark"]["idle"] == 1


def test_two_queries_have_the_same_rows_and_clock(stream_test: StreamTest) -> None:
    source = stream_test.source(SERVED)
    first = stream_test.query(source.frame, "first")
    second = stream_test.query(
        source.frame.withWatermark("served_at", "0 seconds")
        .groupBy(f.window("served_at", "10 minutes"))
        .count(),
        "second",
        mode="update",
    )
    source.add((1, "12:01"), (2, "12:02"))
    first.run()
    second.run()
    source.add((3, "12:03"))
    second.run()
    first.run()
    assert first.rows("user") == [(1,), (2,), (3,)]
    assert second.rows("count") == [(2,), (3,)]


@pytest.mark.contract
def test_a_query_of_the_tests_own(stream_test: StreamTest, tmp_path: Path) -> None:
    served, clicks = stream_test.source(SERVED), stream_test.source(CLICKED)
    kept = KeptBatches(tmp_path / "kept")
    writer = labels(served.frame, clicks.frame).select("user").writeStream.foreachBatch(kept)
    query = writer.option("checkpointLocation", str(tmp_path / "own")).start()
    served.add((7, "12:00"), (8, "12:20"))
    stream_test.flush()
    query.processAllAvailable()
    assert kept.rows() == []
    stream_test.advance("12:40")
    query.processAllAvailable()
    assert kept.rows() == [{"user": 7}]
    query.stop()


@pytest.mark.contract
def test_an_accurate_watermark_gets_its_time_from_rows(stream_test: StreamTest) -> None:
    source = stream_test.source("host string, pos long, t timestamp")
    logs = tailrace.accurate_watermark(source.frame, "t", host="host", hosts=["a", "b"], idle_after="1 hour")
    query = stream_test.query(logs.groupBy(f.window("t", "10 minutes")).count())
    source.add(("a", 1, "12:01"), ("b", 1, "12:30"))
    query.advance("12:40")
    assert query.rows() == []
    source.add(("a", 2, "12:35"))
    query.run()
    assert query.rows("count") == [(1,)]


def test_a_query_that_fails_says_so(stream_test: StreamTest) -> None:
    source = stream_test.source("id int")
    query = stream_test.query(source.frame.withColumn("x", f.raise_error(f.lit("broken"))))
    source.add((1,))
    with pytest.raises(StreamingQueryException, match="broken"):
        query.run()


def test_a_query_that_has_failed_is_started_again_by_its_name(stream_test: StreamTest) -> None:
    source = stream_test.source("k int")
    source.add((1,))
    query = stream_test.query(source.frame.withColumn("x", f.raise_error(f.lit("broken"))))
    with pytest.raises(StreamingQueryException, match="broken"):
        query.run()
    assert (query.is_running, query.is_stopped) == (False, False)
    again = stream_test.query(source.frame)
    again.run()
    assert again.rows() == [{"k": 1}]


def test_a_query_that_ends_by_itself_closes_what_its_watermark_has_passed(
    stream_test: StreamTest, tmp_path: Path
) -> None:
    source = stream_test.source(SERVED)
    windows = source.frame.withWatermark("served_at", "1 minute").groupBy(f.window("served_at", "10 minutes"))
    kept = KeptBatches(tmp_path / "kept")
    writer = windows.count().select("count").writeStream.foreachBatch(kept).trigger(availableNow=True)
    source.add((1, "12:01"), (2, "12:02"), (3, "12:30"))
    stream_test.flush()
    writer.option("checkpointLocation", str(tmp_path / "own")).start().awaitTermination()
    assert kept.rows() == [{"count": 2}]


def test_a_query_is_stopped_at_the_end_of_its_block(stream_test: StreamTest) -> None:
    with stream_test.query(stream_test.source("k int").frame) as query:
        assert (query.is_running, query.is_stopped) == (True, False)
    assert (query.is_running, query.is_stopped) == (False, True)
