"""Which operations and options `recursively` refuses, with which error, before a query runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it

import tailrace
from number_chains import chain, refused, up_to

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from trees import Trees

    Op = Callable[[DataFrame], DataFrame]


@pytest.fixture
def stream(spark: SparkSession) -> DataFrame:
    return spark.readStream.format("rate").load().selectExpr("value AS node", "timestamp AS at")


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


def test_a_column_that_cant_be_tracked_through_op_is_refused_by_name(stream: DataFrame) -> None:
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
