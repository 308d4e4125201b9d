"""`tailrace.testing`: the values that rows are given, and those that come back."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as f

from served_clicks import SERVED
from tailrace.testing import at

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
    with pytest.raises(ValueError, match=r"a value for each column, \w+, \w+, and has 1: \("):
        source.add((7,))
    with pytest.raises(ValueError, match="the stream has no column 'usr'; it has user, served_at"):
        source.add({"usr": 7})
    with pytest.raises(ValueError, match="'noon' is no time"):
        source.add((7, "noon"))


def test_a_struct_that_is_null_has_fields_that_never_are(stream_test: StreamTest) -> None:
    source = stream_test.source("k int")
    struct = "if(k IS NULL, NULL, named_struct('a', 1, 'l', array(named_struct('b', 2))))"
    query = stream_test.query(source.frame.selectExpr(f"{struct} AS s", f"map('k', {struct}) AS m"))
    source.add((1,), (None,))
    query.run()
    full = {"a": 1, "l": [{"b": 2}]}
    assert query.rows() == [{"s": full, "m": {"k": full}}, {"s": None, "m": {"k": None}}]


def test_the_state_of_such_a_struct(stream_test: StreamTest) -> None:
    source = stream_test.source("k int")
    struct = source.frame.selectExpr("if(k IS NULL, NULL, named_struct('a', 1)) AS s")
    query = stream_test.query(struct.groupBy("s").count(), mode="update")
    source.add((1,), (None,))
    query.run()
    assert sorted(query.state("key.s", "value.count"), key=str) == [(None, 1), ({"a": 1}, 1)]


def test_intervals_come_out_as_months_and_as_time(stream_test: StreamTest) -> None:
    source = stream_test.source("k int")
    query = stream_test.query(
        source.frame.selectExpr(
            "make_ym_interval(k, 2) AS i",
            "array(named_struct('y', CAST(make_ym_interval(k) AS INTERVAL YEAR))) AS l",
            "map(make_ym_interval(1), INTERVAL '3' MONTH) AS m",
            "INTERVAL '1' DAY AS d",
        )
    )
    source.add((1,), (None,))
    query.run()
    day = dt.timedelta(days=1)
    assert query.rows() == [
        {"i": 14, "l": [{"y": 12}], "m": {12: 3}, "d": day},
        {"i": None, "l": [{"y": None}], "m": {12: 3}, "d": day},
    ]


@pytest.mark.parametrize(
    ("kind", "value", "told"),
    [
        ("int", "7", "column `x` is int, and '7' is a str: give 7"),
        ("int", 7.0, "column `x` is int, and 7.0 is a float: give 7"),
        ("int", 7.5, "column `x` is int, and 7.5 is a float: give a whole number"),
        ("bigint", True, "column `x` is bigint, and True is a bool: give a whole number"),
        ("double", 1, "column `x` is double, and 1 is an int: give 1.0"),
        ("decimal(5,2)", 1.5, "column `x` is decimal(5,2), and 1.5 is a float: give Decimal('1.5')"),
        ("decimal(5,2)", 0.001, "is a float: give a decimal.Decimal"),
        ("string", 5, "column `x` is string, and 5 is an int: give a text"),
        ("boolean", 1, "give True or False"),
        ("date", "2026-01-01", "column `x` is date, and '2026-01-01' is a str: give a datetime.date"),
        ("date", dt.datetime(2026, 1, 1), "is a datetime: give a datetime.date"),
        ("binary", "a", "give bytes"),
        ("interval day to second", 5, "give a datetime.timedelta"),
        ("interval year to month", 5, "give an int column of months, and `make_ym_interval(0, months)`"),
        ("timestamp", 5, "column `x` is timestamp, and 5 is an int: give a time like '12:07' or a datetime"),
        ("array<int>", "ab", "column `x` is array<int>, and 'ab' is a str: give a list"),
        ("array<int>", ["a"], "column `x.element` is int, and 'a' is a str: give a whole number"),
        ("map<string,int>", [1], "column `x` is map<string,int>, and [1] is a list: give a dictionary"),
        ("map<string,int>", {"a": "b"}, "column `x.value` is int"),
        ("struct<a:int>", 5, "give a tuple of its columns, or a dictionary by name"),
        ("struct<a:int>", {"a": "1"}, "column `x.a` is int, and '1' is a str: give 1"),
    ],
)
def test_a_value_of_another_type_is_told_with_its_cure(
    stream_test: StreamTest, kind: str, value: object, told: str
) -> None:
    source = stream_test.source(f"id int, x {kind}")
    with pytest.raises(TypeError, match=re.escape(told)):
        source.add((1, value))


@pytest.mark.parametrize(
    ("kind", "value", "told"),
    [
        ("tinyint", 200, "column `x` is tinyint, which doesn't hold 200"),
        ("bigint", 2**63, "column `x` is bigint, which doesn't hold"),
        ("decimal(5,2)", Decimal(1000), "which doesn't hold Decimal('1000')"),
        ("float", 1e300, "column `x` is float, which doesn't hold 1e+300"),
        ("float", 1e-50, "column `x` is float, which doesn't hold 1e-50"),
        ("string", "\ud800", "column `x` is string, which doesn't hold"),
        ("interval day", dt.timedelta(days=1, hours=3), "which doesn't hold datetime.timedelta"),
        ("interval day to second", dt.timedelta.max, "which doesn't hold datetime.timedelta"),
        ("decimal(5,2)", Decimal("1.005"), "which doesn't hold Decimal('1.005')"),
        ("int not null", None, "column `x` takes no null: give a value, or leave NOT NULL out of its type"),
    ],
)
def test_a_value_that_its_type_does_not_hold(
    stream_test: StreamTest, kind: str, value: object, told: str
) -> None:
    source = stream_test.source(f"x {kind}")
    with pytest.raises(ValueError, match=re.escape(told)):
        source.add((value,))


def test_values_at_the_bounds_of_their_types(stream_test: StreamTest) -> None:
    source = stream_test.source("a tinyint, b bigint, c decimal(5,2), d decimal(38,0), e binary")
    query = stream_test.query(source.frame)
    large = Decimal(10**38 - 1)
    source.add((-128, 2**63 - 1, Decimal("-999.99"), large, bytearray(b"x")))
    query.run()
    assert query.rows("*") == [(-128, 2**63 - 1, Decimal("-999.99"), large, b"x")]


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


@pytest.mark.parametrize("row", [5, None, "12:00"])
def test_what_is_no_row_is_refused(stream_test: StreamTest, row: object) -> None:
    source = stream_test.source("user int")
    with pytest.raises(TypeError, match="a row must be a tuple of values"):
        source.add(row)  # type: ignore[arg-type]
