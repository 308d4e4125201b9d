"""Random functions, the clock and other expressions of op whose values aren't the row's alone, hop by hop."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it

import tailrace

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from trees import Trees

    Op = Callable[[DataFrame], DataFrame]

STEPS = 16
WALKS = 200


def in_its_task(u: DataFrame) -> DataFrame:
    return u


def exchanged(u: DataFrame) -> DataFrame:
    return u.repartition(2, u.columns[0])


both_ways = pytest.mark.parametrize("way", [in_its_task, exchanged])


def walk(step: str) -> Op:
    """One step of a walk over the line, until there are none left."""
    return lambda u: u.where("left > 0").selectExpr("id", "left - 1 AS left", f"place + ({step}) AS place")


def walks(spark: SparkSession, op: Op, way: Op, steps: int = STEPS, many: int = WALKS) -> Counter[int]:
    """Where walks from 0 end."""
    start = spark.range(0, many, 1, 2).selectExpr("id", f"{steps} AS left", "0L AS place")
    ends = tailrace.recursively(start, lambda u: op(way(u))).where("left = 0")
    return Counter(r.place for r in ends.collect())


def spread(ends: Counter[int], steps: int = STEPS) -> None:
    """After n steps of one, up or down, the variance of the places is n."""
    many = sum(ends.values())
    mean = sum(place * n for place, n in ends.items()) / many
    variance = sum(n * (place - mean) ** 2 for place, n in ends.items()) / many
    # Walks that step alike at each hop have `steps` squared.
    assert abs(mean) < 5 * (steps / many) ** 0.5
    assert steps / 2 < variance < steps * 2
    assert len(ends) > 5


COIN = "CASE WHEN rand() < 0.5 THEN 1L ELSE -1L END"


@pytest.mark.parametrize(
    ("way", "step"),
    [
        # The way is the same for all random functions.
        (exchanged, COIN),
        (in_its_task, COIN),
        (in_its_task, "CASE WHEN randn() < 0 THEN 1L ELSE -1L END"),
        (in_its_task, "CAST(2 * uniform(0, 2) - 1 AS long)"),
        (in_its_task, "shuffle(array(-1L, 1L))[0]"),
        (in_its_task, "CASE WHEN ascii(randstr(1)) % 2 = 0 THEN 1L ELSE -1L END"),
        (in_its_task, "CASE WHEN ascii(substr(uuid(), 36)) % 2 = 0 THEN 1L ELSE -1L END"),
        (in_its_task, "CASE WHEN rand(42) < 0.5 THEN 1L ELSE -1L END"),
    ],
)
def test_each_hop_draws_anew(spark: SparkSession, way: Op, step: str) -> None:
    spread(walks(spark, walk(step), way))


@both_ways
def test_ids_of_hops_are_unique(spark: SparkSession, way: Op) -> None:
    start = spark.range(0, 5, 1, 2).selectExpr("id AS node", "'' AS name")
    named = tailrace.recursively(
        start, lambda u: way(u).where("node < 50").selectExpr("node + 5 AS node", "uuid() AS name")
    )
    assert named.agg(F.countDistinct("name")).first()[0] == named.count() == 50  # type: ignore[index]


def thirds(kept: DataFrame) -> None:
    """A chance of 0.7 leaves 210 of 300 rows, and then 147."""
    hops = Counter(r.hop for r in kept.collect())
    assert 150 < hops[1] < 270
    assert 80 < hops[2] < 210
    assert hops[2] < hops[1]


def test_a_filter_by_chance_ends(spark: SparkSession) -> None:
    start = spark.range(0, 300, 1, 2).selectExpr("id AS node")
    thirds(tailrace.recursively(start, lambda u: u.where("rand() < 0.7"), depth_column="hop", max_depth=1000))


def test_a_seed_of_the_users_gives_the_same_walks_again(spark: SparkSession) -> None:
    op = walk("CASE WHEN rand(7) < 0.5 THEN 1L ELSE -1L END")
    assert walks(spark, op, in_its_task) == walks(spark, op, in_its_task)


def test_each_micro_batch_draws_anew(trees: Trees) -> None:
    trees.add("nodes", *[[(3, n)] for n in range(6)])

    def op(u: DataFrame) -> DataFrame:
        return u.where("node > 0").selectExpr("node - 1 AS node", "CAST(rand(7) * 1e15 AS long) AS parent")

    for mode in ("fixpoint", "feedback"):
        rows = trees.run(tailrace.recursively(trees.stream("nodes"), op, mode=mode), mode)
        assert len({parent for _, parent in rows}) == len(rows) == 18


@pytest.mark.contract
@both_ways
def test_a_sample_is_another_one_at_each_hop(spark: SparkSession, way: Op) -> None:
    start = spark.range(0, 300, 1, 2).selectExpr("id AS node")
    few: dict[str, Any] = {"depth_column": "hop", "max_depth": 3, "on_limit": "drop"}
    thirds(tailrace.recursively(start, lambda u: way(u).sample(0.7), **few))


def test_the_parts_of_a_random_split_are_all_rows_once(spark: SparkSession) -> None:
    def op(u: DataFrame) -> DataFrame:
        one, other = u.where("left > 0").randomSplit([0.5, 0.5], 7)
        up = one.selectExpr("id", "left - 1 AS left", "place + 1 AS place")
        return up.union(other.selectExpr("id", "left - 1 AS left", "place - 1 AS place"))

    ends = walks(spark, op, in_its_task)
    assert sum(ends.values()) == WALKS
    spread(ends)


@pytest.mark.slow
@both_ways
def test_functions_in_python_draw_at_each_hop(spark: SparkSession, way: Op) -> None:
    @F.udf("long", useArrow=False)
    def coin(_: int) -> int:
        return random.choice((-1, 1))

    tossed = coin.asNondeterministic()

    def op(u: DataFrame) -> DataFrame:
        ahead = u.where("left > 0")
        return ahead.select("id", (F.col("left") - 1).alias("left"), F.col("place") + tossed("id"))

    def named(u: DataFrame) -> DataFrame:
        return op(u).toDF("id", "left", "place")

    spread(walks(spark, named, way, steps=12), steps=12)


@both_ways
def test_the_time_is_one_for_all_hops_and_for_the_query(spark: SparkSession, way: Op) -> None:
    start = spark.range(1).selectExpr("id AS node", "timestamp_seconds(0) AS at", "date'1970-01-01' AS day")

    def op(u: DataFrame) -> DataFrame:
        ahead = way(u).where("node < 5")
        return ahead.selectExpr("node + 1 AS node", "now() AS at", "current_date() AS day")

    timed = tailrace.recursively(start, op)
    times = timed.selectExpr("at", "day", "current_timestamp() AS now", "current_date() AS today").collect()
    assert len(times) == 5
    assert {r.at for r in times} == {times[0].now}
    assert {r.day for r in times} == {times[0].today}


def test_the_time_of_a_micro_batch_is_that_of_its_hops(trees: Trees) -> None:
    trees.add("nodes", [(3, 0)])
    nodes = trees.stream("nodes").selectExpr("node", "timestamp_seconds(0) AS at")
    timed = tailrace.recursively(
        nodes, lambda u: u.where("node > 0").selectExpr("node - 1 AS node", "now() AS at")
    )
    rows = trees.run(timed.selectExpr("at", "current_timestamp() AS now"))
    assert len(rows) == 3
    assert {at for at, _ in rows} == {now for _, now in rows}


REFUSED: dict[str, Callable[[DataFrame], Any]] = {
    "monotonically_increasing_id()": lambda u: u.where("node < 5").select(
        F.monotonically_increasing_id().alias("node")
    ),
    "input_file_name()": lambda u: u.where("input_file_name() != '' AND node > 0"),
    "input_file_block_start()": lambda u: u.where("input_file_block_start() = node"),
    "a sample with replacement": lambda u: u.sample(withReplacement=True, fraction=0.5),
}


@pytest.mark.parametrize("what", REFUSED)
def test_an_expression_without_a_meaning_at_a_hop_is_refused(spark: SparkSession, what: str) -> None:
    with pytest.raises(tailrace.TailraceRecursionError) as error:
        tailrace.recursively(spark.range(3).selectExpr("id AS node"), REFUSED[what])
    assert error.value.condition == "TAILRACE_RECURSION_OPERATOR"
    assert error.value.parameters["operator"] == what


def test_a_sample_cant_go_round_by_the_log(trees: Trees) -> None:
    trees.add("nodes", [(1, 1)])
    nodes = trees.stream("nodes")
    with pytest.raises(tailrace.TailraceRecursionError, match="rand"):
        tailrace.recursively(nodes, lambda u: u.sample(0.5), mode="feedback")


def test_a_table_of_op_may_be_of_files(trees: Trees) -> None:
    """An expression that is refused on op's argument is allowed on a table that op joins."""
    trees.add("parents", [(3, 2), (2, 1)])
    named = trees.table("parents").selectExpr("node", "parent", "input_file_name() AS file")
    up = tailrace.recursively(
        trees.spark.range(3, 4).selectExpr("id AS node", "'' AS file"),
        lambda u: u.join(named, "node").select(F.col("parent").alias("node"), named["file"]),
    )
    assert sorted((r.node, r.file.endswith(".parquet")) for r in up.collect()) == [(1, True), (2, True)]
