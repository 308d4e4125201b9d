"""Two batch DataFrames give the rows that two streams of them give."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import pages
import tailrace
from streams import Row, Streams, at, join, second
from tailrace.testing.rows import as_dicts

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tailrace.testing import StreamTest


@pytest.mark.contract(any_spark=True)
def test_the_guides_join_the_other_way_round_finds_labels_without_an_impression(
    spark: SparkSession, repository: Path
) -> None:
    names: dict[str, Any] = {
        "tailrace": tailrace,
        "impressions": spark.createDataFrame(
            [(7, at(0)), (8, at(60)), (None, at(0))], "user_id long, served_at timestamp"
        ),
        "clicks": spark.createDataFrame(
            # The window's first and last second, one before and one behind it; another user, and none.
            [(7, at(0)), (7, at(1800)), (7, at(-1)), (7, at(1801)), (9, at(5)), (None, at(5))],
            "user_id long, clicked_at timestamp",
        ),
    }
    exec(pages.example(repository, "docs/guides/monitor.md", "orphans"), names)  # noqa: S102
    rows = as_dicts(names["orphans"])
    found = {(row["user_id"], second(row["labels"][0]["clicked_at"])) for row in rows}
    assert found == {(7, -1), (7, 1801), (9, 5), (None, 5)}
    matched = tailrace.join(
        names["impressions"],
        names["clicks"],
        on="user_id",
        left_time="served_at",
        right_time="clicked_at",
        after="30 minutes",
    )
    assert sorted(second(c["clicked_at"]) for row in as_dicts(matched) for c in row["labels"]) == [0, 1800]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"match": "nearest", "before": "20 seconds"},
        {"max_matches": 2, "on_late": "mark"},
        {"how": "inner", "before": "20 seconds"},
        {"how": "inner", "on_late": "mark"},
    ],
)
def test_batch_and_stream_give_the_same_rows(stream_test: StreamTest, options: dict[str, Any]) -> None:
    streams = Streams(stream_test, delay="1 hour")
    left = [Row(i, [0, 1, 2, None][i % 4], 100 + 7 * i) for i in range(20)]
    right = [Row(i, [0, 1, None][i % 3], 95 + 5 * i, f"r{i}") for i in range(30)]
    result = streams.join(**options)
    query = streams.query(result)
    streams.add(left, right)
    query.run()
    # Closes the windows.
    query.advance("2026-01-02 12:00")
    batch = join(*streams.batch_frames(left, right), **options)
    expected = as_dicts(batch)
    # The stream's columns carry their watermark as metadata besides.
    assert batch.schema.simpleString() == result.schema.simpleString()
    assert sorted(map(str, query.rows())) == sorted(map(str, expected))
    assert len(expected) >= 10


def test_keys_of_many_types_match_as_spark_compares_them(spark: SparkSession) -> None:
    columns = {
        "boolean": "true",
        "tinyint": "-3Y",
        "smallint": "-300S",
        "int": "-70000",
        "float": "float('-0.0')",
        "double": "double('NaN')",
        "decimal(10,2)": "-12.50",
        "decimal(38,4)": "12345678901234567890.1234",
        "string": "concat('a', chr(0), 'b')",
        "binary": "X'00FF00'",
        "date": "date'1969-12-31'",
        "timestamp_ntz": "timestamp_ntz'1960-01-01 00:00:00'",
        "interval day to second": "interval '-1 02:03:04' day to second",
        "struct<a: int, b: string>": "named_struct('a', 1, 'b', cast(null as string))",
        "array<int>": "array(1, null, 3)",
    }
    select = [f"cast({value} as {kind}) as k{i}" for i, (kind, value) in enumerate(columns.items())]
    row = spark.range(1).selectExpr("timestamp'2026-01-01 12:00:00' as l_ts", *select)
    other = row.selectExpr("l_ts as r_ts", "1 as label", *[f"k{i}" for i in range(len(columns))])
    # Zero of the other sign is the same key.
    other = other.withColumn("k4", -other["k4"])
    joined = join(row, other, on=[f"k{i}" for i in range(len(columns))]).collect()
    assert [len(r["labels"]) for r in joined] == [1]
