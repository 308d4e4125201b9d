"""`tailrace.testing`: the values that rows are given, and those that come back."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as f

from tailrace.testing import at
from test_testing_streams import SERVED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tailrace.testing import StreamTest


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


def test_times_within_other_values_are_in_utc_too(stream_test: StreamTest) -> None:
    source = stream_test.source("s struct<t:timestamp,n:int>, l array<timestamp>, m map<string,timestamp>")
    query = stream_test.query(source.frame)
    noon = dt.datetime(2026, 1, 1, 12)
    source.add(({"t": noon}, ["12:00", noon, None], {"k": "12:00"}), (("12:00", 5), [], {}))
    query.run()
    at_noon = at("12:00")
    assert query.rows("s.t", "l", "m.k", "s.n") == [
        (at_noon, [at_noon, at_noon, None], at_noon, None),
        (at_noon, [], None, 5),
    ]
    with pytest.raises(ValueError, match="the struct has no column 'b'; it has t, n"):
        source.add(({"b": 3}, [], {}))


def test_columns_of_one_name_are_refused_and_rows_without_columns_counted(stream_test: StreamTest) -> None:
    source = stream_test.source("k int")
    twice = stream_test.query(source.frame.select("k", f.col("k")), "twice")
    none = stream_test.query(source.frame.select(), "none")
    source.add((1,), (2,))
    twice.run()
    none.run()
    with pytest.raises(ValueError, match="several columns are called 'k'"):
        twice.rows()
    assert none.rows() == [{}, {}]


def test_what_a_row_lacks_or_has_too_much_is_said(stream_test: StreamTest) -> None:
    source = stream_test.source(SERVED)
    with pytest.raises(ValueError, match="a row has 1 values, and the stream 2 columns"):
        source.add((7,))
    with pytest.raises(ValueError, match="the stream has no column 'usr'; it has user, served_at"):
        source.add({"usr": 7})
    with pytest.raises(ValueError, match="'noon' is no time"):
        source.add((7, "noon"))


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
