"""What `recursively` refuses and by which name, its limits and cycles, and what a query shows of it."""

from __future__ import annotations

import contextlib
import io
import time
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it

import tailrace
from trees import Trees
from waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    Op = Callable[[DataFrame], DataFrame]

NO_END = "spark_partition_id() >= 0"  # true, and the optimizer doesn't know it


@pytest.fixture
def trees(spark: SparkSession, tmp_path: Path) -> Trees:
    return Trees(spark, tmp_path)


@pytest.fixture
def stream(spark: SparkSession) -> DataFrame:
    return spark.readStream.format("rate").load().selectExpr("value AS node", "timestamp AS at")


def chain(spark: SparkSession, start: int = 0) -> DataFrame:
    return spark.range(start, start + 1).selectExpr("id AS node")


def up_to(limit: int) -> Op:
    return lambda u: u.where(f"node < {limit}").selectExpr("node + 1 AS node")


def refused(condition: str, frame: DataFrame, op: Op, **options: Any) -> tailrace.TailraceError:  # noqa: ANN401
    with pytest.raises(tailrace.TailraceRecursionError) as error:
        tailrace.recursively(frame, op, **options)
    known = ("OPTION_", "COLUMN_", "NAME_")
    prefix = "TAILRACE_" if condition.startswith(known) else "TAILRACE_RECURSION_"
    assert error.value.condition == prefix + condition
    return error.value


@contextlib.contextmanager
def failing(condition: str) -> Iterator[dict[str, str]]:
    """The recursion that runs within must end with this error; gives its parameters, later."""
    found: dict[str, str] = {}
    with pytest.raises(Exception, match=f"TAILRACE_RECURSION_{condition}") as failed:
        yield found
    error = failed.value
    assert isinstance(error, tailrace.TailraceRecursionError)
    found["text"] = str(error)


def test_the_schema_of_ops_result_is_that_of_its_argument(stream: DataFrame) -> None:
    def differences(op: Op) -> str:
        return refused("SCHEMA", stream, op).parameters["differences"]

    filtered = "node > 0"
    assert differences(lambda u: u.where(filtered).select("at", "node")) == (
        "column 1 is called at, and node in the argument; column 2 is called node, and at in the argument"
    )
    assert differences(lambda u: u.where(filtered).withColumn("node", F.lit("a"))) == (
        "node is STRING, and BIGINT in the argument"
    )
    assert differences(lambda u: u.where(filtered).select("node")) == "column 2, at, is missing"
    assert (
        differences(lambda u: u.where(filtered).withColumn("n", F.lit(1))) == "column 3, n, is one too many"
    )


def test_the_identity_is_refused_and_what_the_optimizer_makes_it_of(stream: DataFrame) -> None:
    refused("IDENTITY", stream, lambda u: u)
    refused("IDENTITY", stream, lambda u: u.select("node", "at"))
    refused("IDENTITY", stream, lambda u: u.where("1 = 1"))
    refused("IDENTITY", stream, lambda u: u.withColumn("x", F.lit(1)).drop("x").alias("again"))


def test_an_op_that_cant_end_is_refused(stream: DataFrame, spark: SparkSession) -> None:
    table = spark.range(3).selectExpr("id AS node", "'a' AS other")
    refused("ENDLESS", stream, lambda u: u.withColumn("node", F.col("node") + 1))
    refused("ENDLESS", stream, lambda u: u.where("2 > 1").withColumn("node", F.col("node") + 1))
    refused("ENDLESS", stream, lambda u: u.join(table, "node", "left").select("node", "at"))
    refused("ENDLESS", stream, lambda u: u.select(F.explode_outer(F.array("node")).alias("node"), "at"))
    # One of two ways back has no end.
    refused("ENDLESS", stream, lambda u: u.where("node > 1").union(u.selectExpr("node - 1", "at")))
    refused("ENDLESS", stream, lambda u: u.repartition(3).selectExpr("node + 1 AS node", "at"))


def test_an_op_must_use_its_argument_where_it_can_go_round(stream: DataFrame, spark: SparkSession) -> None:
    refused("ARGUMENT_UNUSED", stream, lambda _: stream.where("node > 0"))
    watermark = refused("OPERATOR", stream, lambda u: u.withWatermark("at", "1 minute").where("node > 0"))
    assert watermark.parameters["operator"] == "a watermark"

    def synced(u: DataFrame) -> DataFrame:
        right = stream.select("node", F.col("at").alias("linked"))
        sides: dict[str, Any] = {
            "left_time": "at",
            "right_time": "linked",
            "left_partition": "node",
            "right_partition": "node",
        }
        pairs = tailrace.sync_join(u, right, on="node", window="10 seconds", sync_delay="5 seconds", **sides)
        return pairs.where("linked IS NOT NULL").selectExpr("node - 1 AS node", "at")

    for mode in ("auto", "fixpoint", "feedback"):
        in_op = refused("OPERATOR", stream.withWatermark("at", "0 seconds"), synced, mode=mode)
        assert in_op.parameters["operator"] == "sync_join"
    nested = tailrace.recursively(stream, lambda u: u.where("node > 0"), name="inner", max_depth=1)
    assert nested.columns == ["node", "at"]
    refused("NESTED", stream, lambda u: tailrace.recursively(u, lambda v: v.where("node > 0").limit(1)))

    batch = chain(spark)
    aggregated = refused("OPERATOR", batch, lambda u: u.groupBy().agg(F.max("node").alias("node")))
    assert aggregated.parameters["operator"] == "Aggregate"
    refused("OPERATOR", batch, lambda u: u.where("node > 0").union(chain(spark)))
    refused("OPERATOR", batch, lambda u: chain(spark).join(u, "node", "left_anti"))


def test_a_mode_that_op_cant_go_round_in_is_refused(stream: DataFrame, spark: SparkSession) -> None:
    other = spark.readStream.format("rate").load().selectExpr("value AS node")
    joined = refused("MODE", stream, lambda u: u.join(other, "node").select("node", "at"), mode="fixpoint")
    assert "op reads a stream besides its argument" in joined.parameters["reason"]
    refused("MODE", stream, lambda u: u.where("node > 1").dropDuplicates(), mode="fixpoint")
    refused("MODE", chain(spark), up_to(3), mode="feedback")


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"max_depth": 0}, "max_depth"),
        ({"max_rows": -1}, "max_rows"),
        ({"on_limit": "ignore"}, "on_limit"),
        ({"on_cycle": "ignore"}, "on_cycle"),
        ({"mode": "driver"}, "mode"),
        ({"name": "a/b"}, "name"),
    ],
)
def test_options_that_make_no_sense(spark: SparkSession, options: dict[str, Any], argument: str) -> None:
    assert refused("OPTION_INVALID", chain(spark), up_to(3), **options).parameters["argument"] == argument


def test_columns_of_paths_and_columns_that_are_added(spark: SparkSession) -> None:
    assert (
        refused("COLUMN_NOT_FOUND", chain(spark), up_to(3), path_columns="key").parameters["column"] == "key"
    )
    refused("COLUMN_EXISTS", chain(spark), up_to(3), depth_column="NODE")
    refused("OPTION_INVALID", chain(spark), up_to(3), depth_column="path", path_columns="node")


def test_what_cant_be_tracked_through_op_is_refused_by_name(stream: DataFrame) -> None:
    def op(u: DataFrame) -> DataFrame:
        return u.where("node > 1").groupBy("node", "at").count().select("node", "at")

    untracked = refused("UNTRACKED", stream, op, path_columns="node")
    assert untracked.parameters["option"] == "path_columns"
    assert untracked.parameters["operator"] == "Aggregate"
    # With state in op nothing but the row itself could tell how deep it is.
    assert refused("UNTRACKED", stream, op, max_depth=3).parameters["option"] == "max_depth"
    assert refused("UNTRACKED", stream, op, depth_column="hop").parameters["option"] == "depth_column"


def test_wrong_python_types(spark: SparkSession) -> None:
    with pytest.raises(TypeError, match="result of op"):
        tailrace.recursively(chain(spark), lambda _: None)  # type: ignore[arg-type, return-value]
    with pytest.raises(TypeError, match="max_depth"):
        tailrace.recursively(chain(spark), up_to(3), max_depth="3")  # type: ignore[arg-type]


def test_the_argument_has_no_rows_outside_of_op(spark: SparkSession) -> None:
    leaked: list[DataFrame] = []

    def op(u: DataFrame) -> DataFrame:
        leaked.append(u)
        return up_to(3)(u)

    tailrace.recursively(chain(spark), op)
    with pytest.raises(Exception, match="TAILRACE_RECURSION_ARGUMENT_OUTSIDE"):
        leaked[0].collect()


def test_a_batch_frame_gives_what_a_stream_gives(spark: SparkSession) -> None:
    rows = tailrace.recursively(chain(spark), up_to(4), depth_column="hop", path_columns="node").collect()
    assert sorted((r.node, r.hop, r.path) for r in rows) == [
        (1, 1, [0, 1]),
        (2, 2, [0, 1, 2]),
        (3, 3, [0, 1, 2, 3]),
        (4, 4, [0, 1, 2, 3, 4]),
    ]


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


def test_functions_in_python_go_round_too(spark: SparkSession) -> None:
    halve = F.udf(lambda n: n // 2, "long", useArrow=False)
    rows = tailrace.recursively(
        chain(spark, 20), lambda u: u.where("node > 1").select(halve("node").alias("node"))
    )
    assert sorted(r.node for r in rows.collect()) == [1, 2, 5, 10]


def exchanged(op: Op) -> Op:
    return lambda u: op(u).repartition(3, "node")


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
    assert "hop 6" in many["text"]
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


def test_a_chain_of_many_hops_is_one_job(spark: SparkSession) -> None:
    deep = tailrace.recursively(chain(spark), up_to(500), depth_column="hop")
    spark.sparkContext.setJobGroup("chain", "chain")
    try:
        rows = deep.collect()
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", "")
    assert max(r.hop for r in rows) == len(rows) == 500
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
    """Those of jobs that were cancelled too, as long as they take a core."""
    # What the status tracker says may be ten seconds old: it writes executors down at heartbeats.
    scheduler: Any = spark.sparkContext._jsc.sc().taskScheduler()
    running: int = scheduler.runningTasksByExecutors().apply("driver")
    return running


@pytest.mark.parametrize(
    ("op", "mode"),
    [(in_its_task, "fixpoint"), (by_a_job_a_hop, "fixpoint"), (in_its_task, "feedback")],
)
def test_a_runaway_loop_ends_when_its_query_is_stopped(trees: Trees, op: Op, mode: str) -> None:
    trees.add("nodes", [(1, 0)])
    # Where nobody counts hops none ends it.
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


def test_recursions_of_one_query_need_names(stream: DataFrame, trees: Trees) -> None:
    op: Op = lambda u: u.where("node > 0").selectExpr("node - 1 AS node", "at")  # noqa: E731
    twice = tailrace.recursively(tailrace.recursively(stream, op), op)
    with pytest.raises(Exception, match="TAILRACE_NAME_EXISTS"):
        trees.start(twice)


def test_results_that_are_revised_cant_go_round(stream: DataFrame, trees: Trees) -> None:
    counts = stream.groupBy("node").agg(F.max("at").alias("at"))
    op: Op = lambda u: u.where("node > 0").selectExpr("node - 1 AS node", "at")  # noqa: E731
    with pytest.raises(Exception, match="TAILRACE_RECURSION_REVISIONS"):
        trees.start(tailrace.recursively(counts, op), mode="update")


def test_the_watermarks_policy_must_let_it_be_held(stream: DataFrame, trees: Trees) -> None:
    timed = stream.withWatermark("at", "1 minute")
    op: Op = lambda u: u.where("node > 0").selectExpr("node - 1 AS node", "at")  # noqa: E731
    looped = tailrace.recursively(timed, op, mode="feedback")
    trees.spark.conf.set("spark.sql.streaming.multipleWatermarkPolicy", "max")
    try:
        with pytest.raises(Exception, match="TAILRACE_RECURSION_WATERMARK_POLICY"):
            trees.start(looped)
    finally:
        trees.spark.conf.unset("spark.sql.streaming.multipleWatermarkPolicy")


def test_explain_shows_how_rows_go_round(stream: DataFrame) -> None:
    def plan(**options: Any) -> str:  # noqa: ANN401
        op: Op = lambda u: u.where("node > 0").selectExpr("node - 1 AS node", "at")  # noqa: E731
        with contextlib.redirect_stdout(io.StringIO()) as text:
            tailrace.recursively(stream, op, **options).explain()
        return text.getvalue()

    assert "Fixpoint name=recursion, mode=fixpoint" in plan()
    assert "FeedbackTap name=loop, mode=feedback" in plan(mode="feedback", name="loop")


def test_a_limit_ends_the_query_with_its_name(trees: Trees) -> None:
    trees.add("nodes", [(5, 0)])
    op: Op = lambda u: u.where("node > 0").selectExpr("node - 1 AS node", "parent")  # noqa: E731
    for mode in ("fixpoint", "feedback"):
        looped = tailrace.recursively(trees.stream("nodes"), op, mode=mode, max_depth=2)
        query = trees.start(looped, mode)
        with pytest.raises(StreamingQueryException, match="TAILRACE_RECURSION_TOO_DEEP"):
            query.awaitTermination()
