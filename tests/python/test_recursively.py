"""The results of `recursively`, its limits and cycles, and what a query shows of it."""

from __future__ import annotations

import contextlib
import io
import time
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it

import tailrace
from number_chains import NO_END, chain, up_to
from waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession

    from trees import Trees

    Op = Callable[[DataFrame], DataFrame]


@pytest.fixture
def stream(spark: SparkSession) -> DataFrame:
    return spark.readStream.format("rate").load().selectExpr("value AS node", "timestamp AS at")


@contextlib.contextmanager
def failing(condition: str) -> Iterator[dict[str, str]]:
    """The recursion that runs within must end with this error; gives its parameters, later."""
    found: dict[str, str] = {}
    with pytest.raises(Exception, match=f"TAILRACE_RECURSION_{condition}") as failed:
        yield found
    error = failed.value
    assert isinstance(error, tailrace.TailraceRecursionError)
    found["text"] = str(error)


@pytest.mark.contract
def test_a_batch_frame_gives_what_a_stream_gives(spark: SparkSession) -> None:
    rows = tailrace.recursively(chain(spark), up_to(4), depth_column="hop", path_columns="node").collect()
    assert sorted((r.node, r.hop, r.path) for r in rows) == [
        (1, 1, [0, 1]),
        (2, 2, [0, 1, 2]),
        (3, 3, [0, 1, 2, 3]),
        (4, 4, [0, 1, 2, 3, 4]),
    ]


def test_the_columns_are_those_of_the_input_whatever_case_op_gives_them(spark: SparkSession) -> None:
    frame = tailrace.recursively(
        chain(spark), lambda u: up_to(4)(u).withColumnRenamed("node", "NODE"), depth_column="hop"
    )
    assert frame.columns == [*chain(spark).columns, "hop"]
    assert sorted(row.node for row in frame.collect()) == [1, 2, 3, 4]


def test_an_op_with_two_ways_back_and_one_that_explodes(spark: SparkSession) -> None:
    def both(u: DataFrame) -> DataFrame:
        small = u.where("node < 8")
        return small.selectExpr("node * 2 AS node").union(small.selectExpr("node * 2 + 1 AS node"))

    rows = tailrace.recursively(chain(spark, 1), both, path_columns="node").collect()
    assert sorted(r.node for r in rows) == list(range(2, 16))
    assert all(r.path[0] == 1 and r.path[-1] == r.node for r in rows)

    def exploded(u: DataFrame) -> DataFrame:
        return u.select(F.explode(F.expr("sequence(node + 1, 5)")).alias("node")).where("node > 0")

    counted = tailrace.recursively(chain(spark, 2), lambda u: exploded(u.where("node < 5"))).collect()
    assert sorted(r.node for r in counted) == [3, 4, 4, 5, 5, 5, 5]


@pytest.mark.contract
def test_functions_in_python_go_round_too(spark: SparkSession) -> None:
    halve = F.udf(lambda n: n // 2, "long", useArrow=False)
    rows = tailrace.recursively(
        chain(spark, 20), lambda u: u.where("node > 1").select(halve("node").alias("node"))
    )
    assert sorted(r.node for r in rows.collect()) == [1, 2, 5, 10]


def exchanged(op: Op) -> Op:
    return lambda u: op(u).repartition(3, "node")


@pytest.mark.contract
@pytest.mark.parametrize("way", [lambda op: op, exchanged], ids=["in its task", "exchanged"])
def test_limits(spark: SparkSession, way: Callable[[Op], Op]) -> None:
    start = chain(spark)
    endless = way(lambda u: u.where(NO_END).selectExpr("node + 1 AS node"))

    def rows(op: Op, **options: Any) -> list[int]:  # noqa: ANN401
        return sorted(r.node for r in tailrace.recursively(start, op, **options).collect())

    # As deep as it goes is not too deep.
    assert rows(way(up_to(3)), max_depth=3, max_rows=3) == [1, 2, 3]
    with failing("TOO_DEEP") as deep:
        rows(way(up_to(3)), max_depth=2)
    assert "max_depth=2: 1 rows" in deep["text"]
    assert "node=2" in deep["text"]
    with failing("TOO_MANY_ROWS") as many:
        rows(endless, max_rows=5)
    assert "max_rows=5" in many["text"]
    assert "iteration 6" in many["text"]
    assert rows(endless, max_depth=4, on_limit="drop") == [1, 2, 3, 4]
    assert rows(endless, max_rows=5, on_limit="drop") == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("way", [lambda op: op, exchanged], ids=["in its task", "exchanged"])
def test_cycles(spark: SparkSession, way: Callable[[Op], Op]) -> None:
    # 0 -> 1 -> 2 -> 0
    start = chain(spark)
    op = way(lambda u: u.where(NO_END).selectExpr("(node + 1) % 3 AS node"))
    with failing("CYCLE") as cycle:
        tailrace.recursively(start, op, path_columns="node").collect()
    assert "[0, 1, 2, 0]" in cycle["text"]
    stopped = tailrace.recursively(start, op, path_columns="node", on_cycle="drop")
    assert sorted(r.node for r in stopped.collect()) == [1, 2]
    marked = tailrace.recursively(start, op, path_columns="node", on_cycle="mark").collect()
    assert sorted((r.node, r["_mark"]) for r in marked) == [(0, "cycle"), (1, None), (2, None)]


def test_a_key_of_several_columns(spark: SparkSession) -> None:
    start = spark.range(1).selectExpr("'a' AS name", "id AS node")
    op: Op = lambda u: u.where(NO_END).selectExpr("name", "(node + 1) % 2 AS node")  # noqa: E731
    rows = tailrace.recursively(start, op, path_columns=["name", "node"], on_cycle="mark").collect()
    assert [[tuple(key) for key in r.path] for r in sorted(rows, key=lambda r: len(r.path))] == [
        [("a", 0), ("a", 1)],
        [("a", 0), ("a", 1), ("a", 0)],
    ]


def test_a_chain_of_many_hops(spark: SparkSession) -> None:
    rows = tailrace.recursively(chain(spark), up_to(500), depth_column="hop").collect()
    assert max(r.hop for r in rows) == len(rows) == 500


@pytest.mark.classic("counts Spark's jobs, which a client doesn't see")
def test_a_chain_of_many_hops_is_one_job(spark: SparkSession) -> None:
    deep = tailrace.recursively(chain(spark), up_to(500), depth_column="hop")
    spark.sparkContext.setJobGroup("chain", "chain")
    try:
        deep.collect()
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", "")
    assert len(spark.sparkContext.statusTracker().getJobIdsForGroup("chain")) == 1


def test_more_rows_than_are_kept_as_objects(spark: SparkSession) -> None:
    wide = spark.range(20_000).selectExpr("id AS node").coalesce(1)
    down = tailrace.recursively(wide, lambda u: u.where("node >= 10000").selectExpr("node - 10000 AS node"))
    assert down.count() == 10_000
    assert down.agg(F.sum("node")).first()[0] == sum(range(10_000))  # type: ignore[index]


def in_its_task(u: DataFrame) -> DataFrame:
    return u.where(NO_END).selectExpr("node + 1 AS node", "parent")


def by_a_job_a_hop(u: DataFrame) -> DataFrame:
    return in_its_task(u.repartition(2, "node"))


def running_tasks(spark: SparkSession) -> int:
    """How many tasks take a core, those of cancelled jobs too."""
    # The status tracker may be ten seconds behind: it notes executors at heartbeats.
    scheduler: Any = spark.sparkContext._jsc.sc().taskScheduler()
    running: int = scheduler.runningTasksByExecutors().apply("driver")
    return running


@pytest.mark.classic("looks for running tasks in Spark's scheduler, which is in the server")
@pytest.mark.parametrize(
    ("op", "mode"),
    [(in_its_task, "fixpoint"), (by_a_job_a_hop, "fixpoint"), (in_its_task, "feedback")],
)
def test_a_runaway_loop_ends_when_its_query_is_stopped(trees: Trees, op: Op, mode: str) -> None:
    trees.add("nodes", [(1, 0)])
    # Without a count of hops, no limit ends it.
    limit = {} if mode == "feedback" else {"max_depth": 2**31 - 1}
    loop = tailrace.recursively(trees.stream("nodes"), op, mode=mode, **limit)  # type: ignore[arg-type]
    # Nothing is kept of what comes out.
    query = trees.start(loop.where("node < 0"), processingTime="0 seconds")
    jobs = trees.spark.sparkContext.statusTracker()
    # One task that goes on, or many that are too short to be seen.
    wait_for(
        lambda: running_tasks(trees.spark) or len(jobs.getJobIdsForGroup(query.runId)) >= 5, "the loop runs"
    )
    assert query.isActive
    begun = time.monotonic()
    query.stop()
    assert time.monotonic() - begun < 10
    wait_for(lambda: not running_tasks(trees.spark), "the task ends", seconds=10)


@pytest.mark.contract
def test_explain_shows_how_rows_go_round(stream: DataFrame) -> None:
    def plan(**options: Any) -> str:  # noqa: ANN401
        op: Op = lambda u: u.where("node > 0").selectExpr("node - 1 AS node", "at")  # noqa: E731
        with contextlib.redirect_stdout(io.StringIO()) as text:
            tailrace.recursively(stream, op, **options).explain()
        return text.getvalue()

    assert "Fixpoint name=recursion, mode=fixpoint" in plan()
    assert "FeedbackTap name=loop, mode=feedback" in plan(mode="feedback", name="loop")


def test_what_is_cached_is_not_made_again(spark: SparkSession) -> None:
    """Over Spark Connect each plan is made anew, and has to be found to be the same."""
    cached = tailrace.recursively(chain(spark), up_to(5), depth_column="hop", path_columns="node").cache()
    try:
        assert cached.count() == 5
        with contextlib.redirect_stdout(io.StringIO()) as text:
            cached.where("node > 2").explain()
            other = tailrace.recursively(chain(spark), up_to(6), depth_column="hop", path_columns="node")
            other.explain()
        assert text.getvalue().count("InMemoryTableScan") == 1
        assert other.count() == 6
    finally:
        cached.unpersist()


def test_a_limit_ends_the_query_with_its_name(trees: Trees) -> None:
    trees.add("nodes", [(5, 0)])
    op: Op = lambda u: u.where("node > 0").selectExpr("node - 1 AS node", "parent")  # noqa: E731
    for mode in ("fixpoint", "feedback"):
        looped = tailrace.recursively(trees.stream("nodes"), op, mode=mode, max_depth=2)
        query = trees.start(looped, mode)
        with pytest.raises(StreamingQueryException, match="TAILRACE_RECURSION_TOO_DEEP"):
            query.awaitTermination()
