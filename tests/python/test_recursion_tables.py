"""Tables that op joins: how large they are, which way rows go round with them, what hops leave behind."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it

import tailrace

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from trees import Trees

CHAIN = [(n, n - 1) for n in range(1, 41)]


def jobs(spark: SparkSession, action: Callable[[], Any]) -> int:
    """How many jobs an action takes."""
    group = f"jobs {id(action)}"
    spark.sparkContext.setJobGroup(group, group)
    try:
        action()
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", "")
    found: list[int] = spark.sparkContext.statusTracker().getJobIdsForGroup(group)
    return len(found)


def partitions(frame: DataFrame) -> int:
    """Up to the last one that has rows."""
    last: int = max(row[0] for row in frame.select(F.spark_partition_id()).collect())
    return last + 1


def climb(table: DataFrame) -> Callable[[DataFrame], DataFrame]:
    return lambda u: u.join(table, "node").select(F.col("parent").alias("node"))


def of_rows(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(CHAIN, "node long, parent long")


def of_an_rdd(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(spark.sparkContext.parallelize(CHAIN, 3), "node long, parent long")


def of_pandas(spark: SparkSession) -> DataFrame:
    return of_rows(spark).mapInPandas(lambda frames: frames, "node long, parent long")


def of_a_join(spark: SparkSession) -> DataFrame:
    # Each side is small, and Spark multiplies their sizes.
    rows = [
        spark.range(1, 1_000_000).selectExpr("id AS node", f"id - 1 AS {name}") for name in ("parent", "x")
    ]
    return rows[0].join(rows[1], "node").where("node <= 40").select("node", "parent")


def up_the_chain(spark: SparkSession, table: DataFrame) -> DataFrame:
    start = spark.range(40, 41, 1, 1).selectExpr("id AS node")
    return tailrace.recursively(start, climb(table), depth_column="hop")


@pytest.mark.parametrize("table", [of_rows, of_pandas, of_a_join])
def test_a_small_table_of_unknown_size_is_climbed(
    spark: SparkSession, table: Callable[[SparkSession], DataFrame]
) -> None:
    rows = up_the_chain(spark, table(spark)).collect()
    assert [(r.node, r.hop) for r in sorted(rows, key=lambda r: r.hop)] == [(40 - h, h) for h in range(1, 41)]


@pytest.mark.classic("counts Spark's jobs, which a client doesn't see")
@pytest.mark.parametrize("table", [of_rows, of_an_rdd, of_pandas, of_a_join])
def test_a_small_table_of_unknown_size_is_found_to_be_small(
    spark: SparkSession, table: Callable[[SparkSession], DataFrame]
) -> None:
    # One or two to find out and to broadcast, one for all hops.
    assert jobs(spark, up_the_chain(spark, table(spark)).collect) <= 8


def test_a_table_that_cant_change_is_measured_once(trees: Trees) -> None:
    trees.add("nodes", *[[(n, 0)] for n in (3, 5, 7)])
    nodes = trees.stream("nodes").select("node")
    up = tailrace.recursively(nodes, climb(of_rows(trees.spark)))
    rows = trees.run(up)
    assert len(rows) == 3 + 5 + 7
    assert [(count["mode"], count["rows"]) for count in rows.counts()] == [
        ("fixpoint", 3),
        ("fixpoint", 5),
        ("fixpoint", 7),
    ]


def test_a_range_join_with_a_table_of_unknown_size(spark: SparkSession) -> None:
    steps = spark.createDataFrame([(n,) for n in range(8)], "step long")

    def op(u: DataFrame) -> DataFrame:
        return u.join(steps, (steps.step > u.node) & (steps.step <= u.node + 1)).select(
            steps.step.alias("node")
        )

    up = tailrace.recursively(spark.range(0, 1, 1, 2).selectExpr("id AS node"), op)
    assert sorted(r.node for r in up.collect()) == [1, 2, 3, 4, 5, 6, 7]
    assert partitions(up) <= 2


@pytest.fixture
def no_broadcast(spark: SparkSession) -> Any:  # noqa: ANN401
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    yield
    spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")


@pytest.mark.campaign
@pytest.mark.usefixtures("no_broadcast")
def test_many_hops_of_a_union_by_a_job_a_hop(spark: SparkSession) -> None:
    """Neither the partitions nor the way back to the first hop grow with the hops."""
    # 50 hops (`TAILRACE_HOPS`) were enough for the stack overflow that this test is for.
    top = int(os.environ.get("TAILRACE_HOPS", "16"))
    edges = spark.createDataFrame([(n, n - 1) for n in range(1, top + 1)], "node long, parent long")

    def op(u: DataFrame) -> DataFrame:
        up = u.join(edges, "node").select(F.col("parent").alias("node"), "left")
        return up.union(u.where("left > 0").selectExpr("node", "left - 1 AS left"))

    start = spark.range(top, top + 1, 1, 1).selectExpr("id AS node", "1 AS left")
    up = tailrace.recursively(start, op, depth_column="hop")
    # A row goes up at each hop, or has waited at one of them.
    upwards = [(top - h, h, 1) for h in range(1, top + 1)]
    waited = [(top + 1 - h, h, 0) for h in range(1, top + 2) for _ in range(h)]
    assert sorted((r.node, r.hop, r.left) for r in up.collect()) == sorted(upwards + waited)
    assert partitions(up) <= 4


@pytest.mark.slow
@pytest.mark.usefixtures("no_broadcast")
def test_a_product_by_a_job_a_hop_keeps_its_partitions(spark: SparkSession) -> None:
    steps = spark.createDataFrame([(n,) for n in range(7)], "step long")

    def op(u: DataFrame) -> DataFrame:
        return u.crossJoin(steps).where("step = node + 1").select(F.col("step").alias("node"))

    up = tailrace.recursively(spark.range(0, 1, 1, 2).selectExpr("id AS node"), op)
    assert sorted(r.node for r in up.collect()) == list(range(1, 7))
    assert partitions(up) <= 4


def test_partitions_of_op_that_are_as_many_as_the_arguments_by_chance(spark: SparkSession) -> None:
    """Two times two partitions are four, but none of them is one of the argument's."""
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    try:
        steps = spark.range(0, 9, 1, 2).selectExpr("id AS step")
        start = spark.range(0, 4, 1, 4).selectExpr("id AS node")

        def op(u: DataFrame) -> DataFrame:
            return u.coalesce(2).crossJoin(steps).where("step = node + 4").select(F.col("step").alias("node"))

        rows = tailrace.recursively(start, op).collect()
    finally:
        spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")
    assert sorted(r.node for r in rows) == [4, 5, 6, 7, 8]


def test_an_op_that_coalesces_to_the_one_partition_that_there_is(spark: SparkSession) -> None:
    start = spark.range(0, 3, 1, 1).selectExpr("id AS node")
    down = tailrace.recursively(
        start, lambda u: u.coalesce(1).where("node > 0").selectExpr("node - 1 AS node")
    )
    assert sorted(r.node for r in down.collect()) == [0, 0, 1]
