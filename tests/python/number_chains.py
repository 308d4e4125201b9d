"""Recursions over a chain of numbers, and the check of the error that one is refused with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import tailrace

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    Op = Callable[[DataFrame], DataFrame]

NO_END = "spark_partition_id() >= 0"  # true, and the optimizer doesn't know it


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
