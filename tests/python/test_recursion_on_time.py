"""Rows that would come round behind the watermark: ops that keep them are refused, none is lost unseen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it

import tailrace
from trees import Trees, down

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession

    Op = Callable[[DataFrame], DataFrame]

NODE = "node - 1 AS node"
STATE = "node long, at timestamp"


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    rate = spark.readStream.format("rate").load().selectExpr("value AS node", "timestamp AS at")
    return rate.withWatermark("at", "0 seconds")


@pytest.fixture
def links(spark: SparkSession) -> DataFrame:
    rate = spark.readStream.format("rate").load().selectExpr("value AS of", "timestamp AS linked")
    return rate.withWatermark("linked", "0 seconds")


def joined(
    u: DataFrame, links: DataFrame, how: str, more: str = "linked <= at + INTERVAL 1 minute"
) -> DataFrame:
    return u.join(links, F.expr(f"node = of AND linked >= at AND {more}"), how)


def labelled(u: DataFrame, links: DataFrame, how: str) -> DataFrame:
    on = [("node", "of")]
    return tailrace.join(u, links, on=on, left_time="at", right_time="linked", after="1 minute", how=how)  # type: ignore[arg-type]


def with_state(_: Any, frames: Iterator[Any], __: Any) -> Iterator[Any]:  # noqa: ANN401
    yield from frames


LATER = "greatest(at, linked) AS at"
UNMARKED = "linked + INTERVAL 0 second AS linked"

KEEPS_ROWS: dict[str, tuple[str, Callable[[DataFrame, DataFrame], DataFrame]]] = {
    "inner, old time": (
        "an inner join of two streams",
        lambda u, links: joined(u, links, "inner").selectExpr(NODE, "at"),
    ),
    "inner, a time that isn't known": (
        "an inner join of two streams",
        lambda u, links: joined(u, links, "inner").selectExpr(NODE, "linked - INTERVAL 1 second AS at"),
    ),
    "inner, without a watermark": (
        "an inner join of two streams",
        lambda u, links: u.join(links.selectExpr("of", UNMARKED), F.expr("node = of")).selectExpr(
            NODE, LATER
        ),
    ),
    "below another join": (
        "an inner join of two streams",
        lambda u, links: joined(
            joined(u, links, "inner").selectExpr("node", "at"), links, "inner"
        ).selectExpr(NODE, LATER),
    ),
    "left": (
        "a left outer join of two streams",
        lambda u, links: joined(u, links, "left").where("of > 0").selectExpr(NODE, LATER),
    ),
    "right": (
        "a right outer join of two streams",
        lambda u, links: joined(links, u, "right").where("of > 0").selectExpr(NODE, LATER),
    ),
    "tailrace.join": (
        "a grouped tailrace.join",
        lambda u, links: labelled(u, links, "left").where("size(labels) > 0").selectExpr(NODE, "at"),
    ),
    "tailrace.join, inner": (
        "an inner tailrace.join",
        lambda u, links: labelled(u, links, "inner").selectExpr(NODE, "at"),
    ),
    "windows": (
        "an aggregation",
        lambda u, _: (
            u.groupBy("node", F.window("at", "1 minute"))
            .count()
            .where("node > 0")
            .selectExpr(NODE, "window.end AS at")
        ),
    ),
    "groups with state": (
        "FlatMapGroupsInPandasWithState with event time",
        lambda u, _: u.groupBy("node").applyInPandasWithState(
            with_state, STATE, "n long", "append", "EventTimeTimeout"
        ),
    ),
}


@pytest.mark.parametrize("kind", KEEPS_ROWS)
def test_an_op_that_gives_rows_out_late_is_refused(rows: DataFrame, links: DataFrame, kind: str) -> None:
    operator, op = KEEPS_ROWS[kind]
    with pytest.raises(tailrace.TailraceRecursionError, match="greatest") as refused:
        tailrace.recursively(rows, lambda u: op(u, links))
    assert refused.value.condition == "TAILRACE_RECURSION_HELD_BACK"
    assert refused.value.parameters["operator"] == operator


ON_TIME: dict[str, Callable[[DataFrame, DataFrame], DataFrame]] = {
    "inner, the later time": lambda u, links: joined(u, links, "inner").selectExpr(
        NODE, "greatest(at, linked) AS at"
    ),
    "inner, the later time by the condition": lambda u, links: joined(u, links, "inner").selectExpr(
        NODE, "linked AS at"
    ),
    "tailrace.join, inner, the later time": lambda u, links: labelled(u, links, "inner").selectExpr(
        NODE, "greatest(at, linked) AS at"
    ),
    "two joins": lambda u, links: joined(
        joined(u, links, "inner").selectExpr("node", "greatest(linked, at) AS at"), links, "inner"
    ).selectExpr(NODE, "linked AS at"),
    "deduplication": lambda u, _: down(u).dropDuplicates(["node", "at"]),
    "a table": lambda u, links: down(
        u.join(links.sparkSession.range(9).withColumnRenamed("id", "node"), "node", "left")
    ).dropDuplicates(["node"]),
}


@pytest.mark.parametrize("kind", ON_TIME)
def test_an_op_that_is_on_time_is_not(rows: DataFrame, links: DataFrame, kind: str) -> None:
    assert tailrace.recursively(rows, lambda u: ON_TIME[kind](u, links)).isStreaming


def test_nothing_is_late_without_an_event_time(rows: DataFrame, links: DataFrame) -> None:
    plain = rows.select("node")
    op: Op = lambda u: u.join(links.select("of"), F.expr("node = of")).selectExpr(NODE)  # noqa: E731
    assert tailrace.recursively(plain, op).isStreaming


@pytest.mark.slow
def test_a_row_that_would_come_round_late_ends_the_query(trees: Trees) -> None:
    trees.add("nodes", [(5, 12 * 60)])
    timed = trees.stream("nodes").selectExpr("node", "timestamp_micros(parent * 60000000) AS at")

    def looped(ago: str) -> DataFrame:
        def op(u: DataFrame) -> DataFrame:
            older = u.where("node > 0").selectExpr("node - 1 AS node", f"at - INTERVAL {ago} AS at")
            return older.dropDuplicates(["node"])

        return tailrace.recursively(timed.withWatermark("at", "0 seconds"), op)

    def run(ago: str) -> None:
        writer = looped(ago).writeStream.option("checkpointLocation", str(trees.root / "query"))
        writer.trigger(availableNow=True).start(str(trees.root / "out"), "parquet").awaitTermination()

    with pytest.raises(StreamingQueryException, match="TAILRACE_RECURSION_LATE") as failed:
        run("1 hour")
    error = failed.value
    assert isinstance(error, tailrace.TailraceRecursionError)
    assert "a row of 1970-01-01T10:00:00Z, behind the watermark 1970-01-01T10:59:59.999Z" in str(error)
    # The micro-batch isn't done: with another op it is done anew, and nothing is lost.
    run("0 hour")
    assert sorted(r.node for r in trees.spark.read.parquet(str(trees.root / "out")).collect()) == [
        0,
        1,
        2,
        3,
        4,
    ]


def test_rows_that_no_operator_drops_may_be_late(trees: Trees) -> None:
    trees.add("nodes", [(3, 12 * 60)], [(2, 13 * 60)], [(2, 11 * 60)])
    timed = trees.stream("nodes").selectExpr("node", "timestamp_micros(parent * 60000000) AS at")
    rows = trees.run(tailrace.recursively(timed.withWatermark("at", "0 seconds"), down, mode="feedback"))
    assert sorted(node for node, _ in rows) == [0, 0, 0, 1, 1, 1, 2]


def test_late_rows_of_the_input_get_lost_as_ever(trees: Trees) -> None:
    trees.add("nodes", [(3, 12 * 60)], [(12, 13 * 60)], [(22, 11 * 60)], [(32, 14 * 60)])
    timed = trees.stream("nodes").selectExpr("node", "timestamp_micros(parent * 60000000) AS at")
    op: Op = lambda u: u.where("node % 10 > 0").selectExpr(NODE, "at").dropDuplicates(["node"])  # noqa: E731
    rows = trees.run(tailrace.recursively(timed.withWatermark("at", "0 seconds"), op))
    assert sorted(node for node, _ in rows if node < 20 or node >= 30) == [0, 1, 2, 10, 11, 30, 31]
