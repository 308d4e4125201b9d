"""Loops without an end, keys that can't be compared, null keys, another recursion's checkpoint, counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it

import tailrace
from trees import Trees, down

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from tailrace.options import Mode

    Op = Callable[[DataFrame], DataFrame]


def chain(spark: SparkSession) -> DataFrame:
    return spark.range(1).selectExpr("id AS node")


def condition(error: BaseException) -> str:
    assert isinstance(error, tailrace.TailraceRecursionError)
    return str(error.condition)


@pytest.mark.slow
def test_a_loop_that_cant_be_seen_in_the_plan_ends_with_an_error(spark: SparkSession) -> None:
    """Without a limit of the user's, too: a node that is its own parent."""
    parents = spark.createDataFrame([(0, 0)], "node long, parent long")
    loop = tailrace.recursively(
        chain(spark), lambda u: u.join(parents, "node").select(F.col("parent").alias("node"))
    )
    with pytest.raises(Exception, match="max_depth") as failed:
        loop.collect()
    assert condition(failed.value) == "TAILRACE_RECURSION_RUNAWAY"


@pytest.mark.campaign
def test_a_limit_of_the_users_is_not_the_guard(spark: SparkSession) -> None:
    deep = tailrace.recursively(
        chain(spark), lambda u: u.where("node < 100010").selectExpr("node + 1 AS node"), max_depth=200_000
    )
    assert deep.count() == 100_010


@pytest.mark.parametrize(
    ("column", "sql"),
    [("map('a', 1)", "MAP<STRING, INT>"), ("parse_json('1')", "VARIANT"), ("make_interval(1)", "INTERVAL")],
)
def test_path_columns_that_cant_be_compared(spark: SparkSession, column: str, sql: str) -> None:
    start = spark.range(1).selectExpr("id AS node", f"{column} AS other")
    with pytest.raises(tailrace.TailraceRecursionError) as error:
        tailrace.recursively(start, lambda u: u.where("node < 3"), path_columns="other")
    assert error.value.condition == "TAILRACE_COLUMN_TYPE"
    assert (error.value.parameters["column"], error.value.parameters["type"]) == ("other", sql)


def test_path_columns_of_a_wrong_type_are_refused(spark: SparkSession) -> None:
    for columns in (1, [1]):
        with pytest.raises(TypeError, match="path_columns"):
            tailrace.recursively(chain(spark), lambda u: u.where("node < 3"), path_columns=columns)  # type: ignore[arg-type]


@pytest.mark.contract
def test_cycles_are_of_use_with_a_path_only(spark: SparkSession) -> None:
    with pytest.raises(tailrace.TailraceRecursionError, match="path_columns") as error:
        tailrace.recursively(chain(spark), lambda u: u.where("node < 3"), on_cycle="drop")
    assert error.value.condition == "TAILRACE_OPTION_NEEDS"


def test_a_policy_of_limits_needs_a_limit(spark: SparkSession) -> None:
    with pytest.raises(tailrace.TailraceRecursionError, match="max_depth or max_rows") as error:
        tailrace.recursively(chain(spark), lambda u: u.where("node < 3"), on_limit="drop")
    assert error.value.condition == "TAILRACE_OPTION_NEEDS"


@pytest.mark.parametrize("way", [lambda u: u, lambda u: u.repartition(2)], ids=["in its task", "exchanged"])
def test_a_null_key_closes_a_cycle(spark: SparkSession, way: Op) -> None:
    start = spark.range(1).selectExpr("id AS node")

    # 0 -> 1 -> null -> null
    def op(u: DataFrame) -> DataFrame:
        return way(u).where("spark_partition_id() >= 0").selectExpr("IF(node = 0, 1L, null) AS node")

    rows = tailrace.recursively(start, op, path_columns="node", on_cycle="mark", max_depth=5).collect()
    assert [(r.path, r["_mark"]) for r in sorted(rows, key=lambda r: len(r.path))] == [
        ([0, 1], None),
        ([0, 1, None], None),
        ([0, 1, None, None], "cycle"),
    ]


def test_an_op_in_sql_over_a_view_has_a_path(spark: SparkSession) -> None:
    def op(u: DataFrame) -> DataFrame:
        u.createOrReplaceTempView("going_round")
        return spark.sql("SELECT node + 1 AS node FROM going_round WHERE node < 3")

    rows = tailrace.recursively(chain(spark), op, path_columns="node").collect()
    assert sorted(r.path for r in rows) == [[0, 1], [0, 1, 2], [0, 1, 2, 3]]


def run_to_the_end(trees: Trees, **options: Any) -> None:  # noqa: ANN401
    looped = tailrace.recursively(trees.stream("nodes"), down, **options)
    writer = looped.writeStream.option("checkpointLocation", str(trees.root / "query"))
    writer.trigger(availableNow=True).start(str(trees.root / "out"), "parquet").awaitTermination()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"mode": "feedback", "name": "up"}, {"mode": "feedback", "name": "upwards"}),
        ({"mode": "fixpoint"}, {"mode": "feedback"}),
        ({"mode": "feedback"}, {"mode": "fixpoint"}),
    ],
    ids=["renamed", "into feedback", "out of feedback"],
)
def test_a_checkpoint_of_another_recursion_is_refused_at_the_start(
    trees: Trees, before: dict[str, Any], after: dict[str, Any]
) -> None:
    trees.add("nodes", [(3, 0)])
    run_to_the_end(trees, **before)
    with pytest.raises(Exception, match="TAILRACE_RECURSION_CHECKPOINT") as refused:
        run_to_the_end(trees, **after)
    assert condition(refused.value) == "TAILRACE_RECURSION_CHECKPOINT"
    # Neither was it damaged by the attempt.
    trees.add("nodes", [(2, 0)])
    run_to_the_end(trees, **before)
    out = trees.spark.read.parquet(str(trees.root / "out"))
    assert sorted(r.node for r in out.collect()) == [0, 0, 1, 1, 2]


@pytest.mark.parametrize("mode", ["fixpoint", "feedback"])
def test_rows_are_counted_once_a_batch(trees: Trees, mode: Mode) -> None:
    trees.add("nodes", [(3, n) for n in range(4)])

    def act(rows: DataFrame, _: int) -> None:
        for _ in range(3):
            rows.count()
        rows.limit(1).collect()

    looped = tailrace.recursively(trees.stream("nodes"), down, mode=mode, depth_column="hop")
    writer = looped.writeStream.foreachBatch(act).option("checkpointLocation", str(trees.root / "query"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    observed = {p.batchId: p.observedMetrics["tailrace.recursion"] for p in query.recentProgress}
    assert sum(o.rows for o in observed.values()) == 12
    assert sum(o.fedBack for o in observed.values()) == 12


@pytest.mark.parametrize("op", [down, lambda u: down(u.repartition(2))], ids=["in its task", "exchanged"])
def test_the_progress_has_each_hop(trees: Trees, op: Op) -> None:
    trees.add("nodes", [(3, 0), (2, 0), (2, 0)])
    counts = trees.run(tailrace.recursively(trees.stream("nodes"), op)).counts()
    hops = counts[0]["hops"]
    assert [(hop["hop"], hop["rows"]) for hop in hops] == [(1, 3), (2, 3), (3, 1)]
    assert all(hop["ms"] > 0 for hop in hops)
