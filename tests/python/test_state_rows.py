"""`tailrace-state`: the rows that wait, decoded, for a user's query and for a test's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import pages
import tailrace
from served_clicks import CLICKED, SERVED, labels
from tailrace.testing import at

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tailrace.testing import StreamTest

_BOTH = ("side", "time", "key.user", "left.served_at", "right.clicked_at")


@pytest.mark.contract
def test_a_row_is_there_until_it_comes_out(stream_test: StreamTest) -> None:
    served, clicks = stream_test.source(SERVED), stream_test.source(CLICKED)
    query = stream_test.query(labels(served.frame, clicks.frame))
    served.add((7, "12:00"), (8, "12:05"), (None, "12:06"))
    clicks.add((7, "12:02"), (None, "12:03"))
    query.run()
    left = [
        ("left", at("12:00"), 7, at("12:00"), None),
        ("left", at("12:05"), 8, at("12:05"), None),
        ("left", at("12:06"), None, at("12:06"), None),
    ]
    right = ("right", at("12:02"), 7, None, at("12:02"))
    assert query.state(*_BOTH) == [left[0], right, *left[1:]]
    query.advance("12:42")
    assert query.state(*_BOTH, operator=0)[-2:] == left[1:]
    query.restart()
    assert [row for row in query.state(*_BOTH) if row[0] == "left"] == left[1:]
    query.advance("13:30")
    assert set(query.rows("user")) == {(7,), (8,), (None,)}
    assert query.state() == []


@pytest.mark.contract
def test_the_rows_of_a_synced_join(stream_test: StreamTest) -> None:
    columns = "id long, partition int, created timestamp"
    left, right = stream_test.source(columns), stream_test.source(columns)
    joined = tailrace.sync_join(
        left.frame,
        right.frame,
        on="id",
        left_time="created",
        right_time="created",
        left_partition="partition",
        right_partition="partition",
        sync_delay="5 seconds",
        window="1 minute",
    )
    query = stream_test.query(joined)
    left.add((1, 0, "12:00"), (2, 0, "12:00:10"))
    right.add((1, 0, "12:00:01"), (3, 0, "12:00:09"))
    query.run()
    assert query.rows("id") == [(1,)]
    assert query.state("side", "time", "key.id", "left.partition") == [
        ("right", at("12:00:09"), 3, None),
        ("left", at("12:00:10"), 2, 0),
    ]
    assert query.state("right")[0] == ({"partition": 0, "created": at("12:00:09")},)


@pytest.mark.contract
def test_the_state_of_sparks_operators(stream_test: StreamTest) -> None:
    clicks = stream_test.source(CLICKED)
    query = stream_test.query(clicks.frame.groupBy("user").count(), mode="update")
    clicks.add((7, "12:00"), (7, "12:01"), (8, "12:01"))
    query.run()
    assert sorted(query.state("key.user", "value.count")) == [(7, 2), (8, 1)]
    with pytest.raises(ValueError, match=r"no state of an operator 1; it has 0 \(stateStoreSave\)"):
        query.state(operator=1)


def test_a_query_without_state_says_so(stream_test: StreamTest) -> None:
    clicks = stream_test.source(CLICKED)
    query = stream_test.query(clicks.frame)
    assert query.state() == []
    clicks.add((7, "12:00"))
    query.run()
    with pytest.raises(ValueError, match="no state of an operator 0; it has none"):
        query.state()


def test_several_joins_are_told_apart(spark: SparkSession, stream_test: StreamTest) -> None:
    served, clicks = stream_test.source(SERVED), stream_test.source(CLICKED)
    buys = stream_test.source("user int, bought_at timestamp")
    first = labels(served.frame, clicks.frame)
    second = tailrace.join(
        first,
        buys.frame.withWatermark("bought_at", "10 minutes"),
        on="user",
        left_time="served_at",
        right_time="bought_at",
        after="1 hour",
        into="bought",
    )
    query = stream_test.query(second)
    served.add((7, "12:00"))
    buys.add((7, "12:20"))
    query.run()
    states = {number: query.state("side", operator=number) for number in (0, 1)}
    assert sorted(states.values()) == [[("left",)], [("right",)]]
    with pytest.raises(Exception, match=r"TAILRACE_OPTION_INVALID.*one of"):
        spark.read.format("tailrace-state").load(str(query.checkpoint)).schema  # noqa: B018  Connect looks now


def test_the_example_of_the_guide(stream_test: StreamTest, repository: Path, spark: SparkSession) -> None:
    served, clicks = stream_test.source(SERVED), stream_test.source(CLICKED)
    query = stream_test.query(labels(served.frame, clicks.frame))
    served.add((8, "12:05"), (7, "12:00"))
    clicks.add((7, "12:02"))
    query.run()
    code = pages.example(repository, "docs/guides/state.md", "state")
    names: dict[str, Any] = {"spark": spark}
    exec(code.replace('"ckpt"', f'"{query.checkpoint}"'), names)  # noqa: S102
    assert [row["user"] for row in names["oldest"].collect()] == [7, 8]
