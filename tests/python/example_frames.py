"""Frames and definitions that the tests of `examples` begin with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tailrace
from streams import at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "id long, user long, at timestamp"
# Of rows that close all windows.
FAR = at(5000)


def frame(spark: SparkSession, *rows: tuple[Any, ...], schema: str = SCHEMA) -> DataFrame:
    """A batch DataFrame of rows whose last value is their second."""
    return spark.createDataFrame([(*row[:-1], at(row[-1])) for row in rows], schema)


def examples(impressions: DataFrame, **more: Any) -> tailrace.Examples:  # noqa: ANN401
    return tailrace.examples(impressions, on="user", time="at", **more)


def ids(rows: list[dict[str, Any]], label: str) -> dict[int, list[int] | None]:
    """The ids of a label's events, by the ids of the rows."""
    return {r["id"]: None if r[label] is None else [e["id"] for e in r[label]] for r in rows}
