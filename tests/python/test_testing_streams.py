"""`tailrace.testing`: streams that a test feeds, and the clock that it moves."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as f

import tailrace
from tailrace.testing import StreamTest, at

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

SERVED = "user int, served_at timestamp"
CLICKED = "user int, clicked_at timestamp"


@pytest.fixture
def stream_test(spark: SparkSession, tmp_path: Path) -> Iterator[StreamTest]:
    with StreamTest(spark, tmp_path, "12:00") as test:
        yield test


def labels(served: DataFrame, clicks: DataFrame, delay: str = "10 minutes") -> DataFrame:
    return tailrace.join(
        served.withWatermark("served_at", delay),
        clicks.withWatermark("clicked_at", delay),
        on="user",
        left_time="served_at",
        right_time="clicked_at",
        after="30 minutes",
        release_every="batch",
    )


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
    query.advance("12:10")
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


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_values_of_all_kinds(spark: SparkSession, stream_test: StreamTest, zone: str) -> None:
    before = spark.conf.get("spark.sql.session.timeZone") or ""
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        source = stream_test.source(
            "t timestamp, n timestamp_ntz, d date, b binary, m map<string,int>, "
            "s struct<a:int,t:timestamp>, l array<timestamp>, x decimal(10,2)"
        )
        query = stream_test.query(source.frame)
        later = dt.datetime(2026, 1, 2, 3, tzinfo=dt.timezone(dt.timedelta(hours=3)))
        row = {
            "t": "12:00",
            "n": "12:00",
            "d": dt.date(2026, 1, 5),
            "b": b"\x00\xff",
            "m": {"k": 1},
            "s": (1, later),
            "l": [later],
        }
        source.add(row, {})
        query.run()
        found, empty = query.rows()
        assert set(empty.values()) == {None}
        assert found == {
            **row,
            "t": at("12:00"),
            "n": dt.datetime(2026, 1, 1, 12),
            "s": {"a": 1, "t": at("2026-01-02 00:00")},
            "l": [at("2026-01-02 00:00")],
            "x": None,
        }
        assert found["t"].tzinfo is dt.UTC
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def test_what_a_row_lacks_or_has_too_much_is_said(stream_test: StreamTest) -> None:
    source = stream_test.source(SERVED)
    with pytest.raises(ValueError, match="a row has 1 values, and the stream 2 columns"):
        source.add((7,))
    with pytest.raises(ValueError, match="the stream has no column 'usr'; it has user, served_at"):
        source.add({"usr": 7})
    with pytest.raises(ValueError, match="'noon' is no time"):
        source.add((7, "noon"))


def test_a_query_that_fails_says_so(stream_test: StreamTest) -> None:
    source = stream_test.source("id int")
    query = stream_test.query(source.frame.withColumn("x", f.raise_error(f.lit("broken"))))
    source.add((1,))
    with pytest.raises(StreamingQueryException, match="broken"):
        query.run()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("9:05", dt.datetime(2026, 1, 1, 9, 5, tzinfo=dt.UTC)),
        ("23:59:59.5", dt.datetime(2026, 1, 1, 23, 59, 59, 500_000, tzinfo=dt.UTC)),
        ("2026-03-04 05:06", dt.datetime(2026, 3, 4, 5, 6, tzinfo=dt.UTC)),
        ("2026-03-04T05:06:00+02:00", dt.datetime(2026, 3, 4, 3, 6, tzinfo=dt.UTC)),
    ],
)
def test_times(text: str, expected: dt.datetime) -> None:
    assert at(text) == expected
    assert at(text).tzinfo is dt.UTC


def test_no_time() -> None:
    for text in ("", "noon", "25:00", "12:7"):
        with pytest.raises(ValueError, match="is no time"):
            at(text)
