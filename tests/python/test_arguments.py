"""The forms of arguments: names or Columns, synonyms, numbers for shares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

import pytest
from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it

import tailrace
from tailrace import options

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(scope="module")
def sides(spark: SparkSession) -> tuple[DataFrame, DataFrame]:
    served = spark.sql("SELECT id AS user_id, timestamp_seconds(id) AS served_at FROM range(3)")
    engaged = spark.sql("SELECT id AS user, timestamp_seconds(id + 1) AS engaged_at FROM range(2)")
    return served, engaged


def matches(sides: tuple[DataFrame, DataFrame], **given: Any) -> dict[int, int]:  # noqa: ANN401
    left, right = sides
    arguments = {"on": [("user_id", "user")], "left_time": "served_at", "right_time": "engaged_at"}
    joined = tailrace.join(left, right, **{**arguments, "after": "5 seconds", **given})
    return {row["user_id"]: len(row["labels"]) for row in joined.collect()}


def test_columns_are_names_or_columns(sides: tuple[DataFrame, DataFrame]) -> None:
    left, right = sides
    expected = {0: 1, 1: 1, 2: 0}
    assert matches(sides) == expected
    assert matches(sides, on=[(left["user_id"], right["user"])]) == expected
    assert matches(sides, on=[(F.col("user_id"), "user")], left_time=left.served_at) == expected
    assert matches(sides, left_time=F.col("served_at"), right_time=right["engaged_at"]) == expected
    renamed = (left, right.withColumnRenamed("user", "user_id"))
    assert matches(renamed, on=F.col("user_id")) == expected
    # The Column of a DataFrame before its rows were filtered.
    assert matches((left.where("user_id < 9"), right), on=[(left["user_id"], "user")]) == expected


def test_a_column_with_a_dot_in_its_name_is_found(spark: SparkSession) -> None:
    frame = spark.sql("SELECT 1 AS `a.b`, timestamp_seconds(0) AS at")
    other = frame.withColumnRenamed("at", "then")
    joined = tailrace.join(
        frame, other, on=F.col("`a.b`"), left_time="at", right_time="then", after="1 second"
    )
    assert [len(row["labels"]) for row in joined.collect()] == [1]


@pytest.mark.parametrize(
    ("given", "condition", "says"),
    [
        (lambda: {"left_time": F.col("served_at") + F.expr("INTERVAL 1 SECOND")}, "EXPRESSION", "+"),
        (lambda: {"on": [(F.lit(1), "user")]}, "EXPRESSION", "1"),
        (lambda: {"left_time": F.col("served_at").alias("other")}, "EXPRESSION", "other"),
        (lambda: {"on": [(F.col("nope"), "user")]}, "NOT_FOUND", "nope"),
    ],
)
def test_more_than_a_column_is_refused(
    sides: tuple[DataFrame, DataFrame], given: Callable[[], dict[str, Any]], condition: str, says: str
) -> None:
    with pytest.raises(tailrace.TailraceJoinError) as refused:
        matches(sides, **given())
    assert refused.value.condition == f"TAILRACE_COLUMN_{condition}"
    assert says in str(refused.value)
    assert refused.value.parameters["call"] == "tailrace.join"


def test_pysparks_names_of_joins_are_taken(sides: tuple[DataFrame, DataFrame]) -> None:
    for how in get_args(options.How):
        if how != "inner":
            assert matches(sides, how=how) == {0: 1, 1: 1, 2: 0}
    with pytest.raises(tailrace.TailraceJoinError, match="'left' or 'leftouter' or 'left_outer' or 'inner'"):
        matches(sides, how="right")


def test_completeness_is_a_number_too(sides: tuple[DataFrame, DataFrame]) -> None:
    logs = sides[0].withColumn("host", F.lit("web-1"))
    for share in (0.999, 1, "0.999", "99.9%"):
        same = tailrace.accurate_watermark(logs, "served_at", host="host", completeness=share)
        assert same.columns == logs.columns
    for share in (0, 1.1, 99.9):
        with pytest.raises(tailrace.TailraceWatermarkError, match="completeness"):
            tailrace.accurate_watermark(logs, F.col("served_at"), host=logs["host"], completeness=share)


def test_all_reasons_and_policies_are_closed_sets() -> None:
    policies = {"drop", "mark", "emit", "fail", "pause", "exclude", "clamp"}
    used: set[str] = set()
    for name, kind in vars(options).items():
        if name.startswith("On"):
            used |= set(get_args(kind))
    assert used == policies
    assert get_args(tailrace.Reason) == (
        "late_left",
        "late_right",
        "unmatched_right",
        "null_right",
        "amended",
        "excluded",
        "replay",
        "duplicate",
        "future",
        "cycle",
    )
