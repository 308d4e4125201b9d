"""`tailrace.testing`: the state of a query, and its numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as f

import local_spark
import tailrace
from served_clicks import CLICKED, SERVED, labels

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from tailrace.testing import StreamTest


@pytest.mark.contract
def test_the_numbers_of_all_micro_batches(stream_test: StreamTest) -> None:
    served, clicks = stream_test.source(SERVED), stream_test.source(CLICKED)
    query = stream_test.query(labels(served.frame, clicks.frame))
    assert query.progresses() == []
    assert query.total("lateLeftRows") == 0
    for minute, late in (("12:30", "11:30"), ("12:50", "11:40")):
        served.add((7, minute))
        clicks.add((7, minute))
        query.run()
        served.add((8, late))
        query.run()
    assert query.total("lateLeftRows") == query.total("numRowsDroppedByWatermark") == 2
    batches = [progress["batchId"] for progress in query.progresses()]
    assert batches == list(range(len(batches)))
    assert query.progresses()[-1]["batchId"] == query.progress()["batchId"]
    with pytest.raises(ValueError, match=r"tailraceLabelJoin has no 'lateRows'; it has .*lateLeftRows"):
        query.total("lateRows")
    with pytest.raises(ValueError, match="the query has no operator 1 with state; it has 1"):
        query.total("lateLeftRows", 1)


@pytest.mark.parametrize(("strategy", "besides"), [("lazy", 0), ("eager", 1 + 2)])
def test_what_waits_are_rows_with_keys_and_matches_that_were_found(
    spark: SparkSession, stream_test: StreamTest, strategy: str, besides: int
) -> None:
    spark.conf.set("spark.tailrace.join.strategy", strategy)
    try:
        served, clicks = stream_test.source(SERVED), stream_test.source(CLICKED)
        query = stream_test.query(labels(served.frame, clicks.frame))
        served.add((7, "12:00"))
        clicks.add((7, "12:02"), (7, "12:03"), (8, "12:03"))
        query.run()
        assert len(query.state()) == 4
        assert query.waiting() == {"tailraceLabelJoin": 4 + besides}
    finally:
        spark.conf.unset("spark.tailrace.join.strategy")


def test_the_state_of_a_join_with_a_map(stream_test: StreamTest) -> None:
    served = stream_test.source("user int, served_at timestamp, tags map<string, int>")
    clicks = stream_test.source("user int, clicked_at timestamp")
    joined = tailrace.join(
        served.frame.withWatermark("served_at", "1 minute"),
        clicks.frame.withWatermark("clicked_at", "1 minute"),
        on="user",
        left_time="served_at",
        right_time="clicked_at",
        after="10 minutes",
    )
    query = stream_test.query(joined)
    served.add((7, "12:00", {"a": 1}), (7, "12:00", {"b": 2}))
    query.run()
    assert query.state("side", "left.tags") == [("left", {"a": 1}), ("left", {"b": 2})]


@pytest.fixture
def compiled(spark: SparkSession) -> Iterator[None]:
    """With generated code, as users have it."""
    spark.conf.set("spark.sql.codegen.wholeStage", "true")
    spark.conf.set("spark.sql.codegen.factoryMode", "FALLBACK")
    yield
    for name, value in local_spark.INTERPRETED.items():
        spark.conf.set(name, value)


# Spark's reader of a join's state fails where it is interpreted.
@pytest.mark.usefixtures("compiled")
def test_the_state_of_sparks_join_has_its_sides(stream_test: StreamTest) -> None:
    served = stream_test.source("user int, served_at timestamp")
    clicks = stream_test.source("who int, clicked_at timestamp")
    left, right = (
        served.frame.withWatermark("served_at", "1 minute"),
        clicks.frame.withWatermark("clicked_at", "1 minute"),
    )
    near = "user = who AND clicked_at BETWEEN served_at AND served_at + INTERVAL 10 MINUTES"
    query = stream_test.query(left.join(right, f.expr(near), "left_outer"))
    served.add((7, "12:00"))
    clicks.add((8, "12:01"))
    query.run()
    rows = query.state()
    assert [(r["side"], r["value"].get("user"), r["value"].get("who")) for r in rows] == [
        ("left", 7, None),
        ("right", None, 8),
    ]
