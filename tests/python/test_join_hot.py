"""`hot`: keys whose left rows are split over several partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.functions import col, lit, timestamp_seconds

import tailrace
from streams import Row, Streams, groups
from tailrace.errors import TailraceJoinError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

END = ([Row(900, 9, 1000)], [Row(901, 9, 1000)])


@pytest.fixture
def streams(spark: SparkSession, tmp_path: Path) -> Streams:
    streams = Streams(spark, tmp_path)
    left = [Row(i, (1, 1, 1, 2, None)[i % 5], 100 + i // 3) for i in range(40)]
    streams.add(left, [Row(100 + i, 1 + i % 2, 105 + i) for i in range(12)])
    return streams


def test_the_rows_are_those_of_a_join_that_splits_nothing(streams: Streams) -> None:
    hot = streams.join(hot=[1], hot_parts=3)
    plain = streams.join()
    assert hot.schema == plain.schema
    with streams.query(hot) as query, streams.query(plain, "plain") as other:
        query.run()
        streams.add(*END)
        query.run()
        other.run()
        assert groups(query.rows()) == groups(other.rows())
        assert len(query.rows()) == 40


def test_a_checkpoint_is_bound_to_the_keys(streams: Streams) -> None:
    with streams.query(streams.join(hot=[1])) as query:
        query.run()
        streams.add(*END)
        query.restart(streams.join(hot=[1, 2]))
        with pytest.raises(StreamingQueryException, match="`hot` was '1 in 8 parts' and is now"):
            query.run()


@pytest.mark.parametrize("key", [(1, "a"), [1, "a"]])
def test_keys_of_several_columns(spark: SparkSession, key: Any) -> None:  # noqa: ANN401
    left = spark.range(20).select(
        (col("id") % 2).alias("k"), lit("a").alias("t"), timestamp_seconds("id").alias("at"), "id"
    )
    right = left.select("k", "t", col("at").alias("seen"), col("id").alias("n"))
    options: dict[str, Any] = {
        "on": ["k", "t"],
        "left_time": "at",
        "right_time": "seen",
        "after": "5 seconds",
    }
    split = tailrace.join(left, right, hot=[key], **options).orderBy("id").collect()
    assert split == tailrace.join(left, right, **options).orderBy("id").collect()


@pytest.mark.parametrize("wrong", ["1", {"key": 1}, 7, [None], [(1, None)]])
def test_what_is_no_list_of_keys(streams: Streams, wrong: Any) -> None:  # noqa: ANN401
    with pytest.raises(TypeError, match="`hot`"):
        streams.join(hot=wrong)


@pytest.mark.parametrize("options", [{"hot_parts": 1}, {"hot": [(1, 2)]}, {"on_late": "mark"}])
def test_what_cannot_be(streams: Streams, options: dict[str, Any]) -> None:
    with pytest.raises(TailraceJoinError, match="TAILRACE_OPTION_INVALID"):
        streams.join(**{"hot": [1], **options})
