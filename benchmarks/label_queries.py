"""Queries with several labels: one definition of Tailrace's, and what users chain by hand."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it

import tailrace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    # The left stream and those of the labels to the frame that is run.
    LabelQuery = Callable[[DataFrame, Sequence[DataFrame]], DataFrame]

WINDOWS = ("10 minutes", "20 minutes", "30 minutes")
_SEED = 7
_RATE = 0.1


def _name(i: int) -> str:
    return f"label_{i}"


def _defined(left: DataFrame, labels: Sequence[DataFrame]) -> tailrace.Examples:
    made = tailrace.examples(left, on="l_key", time="l_ts")
    for i, (label, window) in enumerate(zip(labels, WINDOWS, strict=False)):
        made = made.label(_name(i), label, on=[("l_key", f"r{i}_key")], time=f"r{i}_ts", after=window)
    return made


def examples(left: DataFrame, labels: Sequence[DataFrame]) -> DataFrame:
    """One definition."""
    return _defined(left, labels).stream()


def versions(left: DataFrame, labels: Sequence[DataFrame]) -> DataFrame:
    """A version at the end of each window."""
    return _defined(left, labels).horizons(*WINDOWS).stream()


def sampled(left: DataFrame, labels: Sequence[DataFrame]) -> DataFrame:
    """One row in ten of them."""
    return _defined(left, labels).sample({"true": _RATE}, seed=_SEED).stream()


def filtered(left: DataFrame, labels: Sequence[DataFrame]) -> DataFrame:
    """The sample by hand."""
    share = F.pmod(F.xxhash64("l_key", "l_ts", F.lit(_SEED)), F.lit(1000))
    return examples(left, labels).where(share < int(1000 * _RATE))


def tailrace_joins(left: DataFrame, labels: Sequence[DataFrame]) -> DataFrame:
    """A `tailrace.join` behind the other."""
    frame = left
    for i, (label, window) in enumerate(zip(labels, WINDOWS, strict=True)):
        frame = tailrace.join(
            frame,
            label,
            on=[("l_key", f"r{i}_key")],
            left_time="l_ts",
            right_time=f"r{i}_ts",
            after=window,
            into=_name(i),
        )
    return frame


def spark_joins(left: DataFrame, labels: Sequence[DataFrame]) -> DataFrame:
    """The same in plain Spark: after each join, the pairs of a left row are grouped again."""
    frame = left
    for i, (label, window) in enumerate(zip(labels, WINDOWS, strict=True)):
        condition = f"l_key = r{i}_key AND r{i}_ts >= l_ts AND r{i}_ts <= l_ts + interval {window}"
        pairs = frame.join(label, F.expr(condition), "leftOuter")
        kept = ["l_value", *map(_name, range(i))]
        frame = pairs.groupBy("l_id", "l_key", "l_ts").agg(
            *(F.first(name).alias(name) for name in kept),
            F.collect_list(F.struct(f"r{i}_id", f"r{i}_ts", f"r{i}_value")).alias(_name(i)),
        )
    return frame


def floor(left: DataFrame, labels: Sequence[DataFrame]) -> DataFrame:
    """What one operator does besides joining: both sides are read, and shuffled by key."""
    columns = ["key", "ts", "id", "value"]
    sides = [left.select(*(F.col(f"l_{name}").alias(name) for name in columns))]
    for i, label in enumerate(labels):
        sides.append(label.select(*(F.col(f"r{i}_{name}").alias(name) for name in columns)))
    shuffled = [side.repartition(2, "key") for side in (sides[0], reduce(DataFrame.union, sides[1:]))]
    return reduce(DataFrame.union, shuffled)


LABEL_QUERIES: Mapping[str, LabelQuery] = {
    "examples-3": examples,
    "examples-3-horizons": versions,
    "examples-3-sampled": sampled,
    "examples-3-filtered": filtered,
    "examples-1": lambda left, labels: examples(left, labels[:1]),
    "join-1": lambda left, labels: tailrace.join(
        left, labels[0], on=[("l_key", "r0_key")], left_time="l_ts", right_time="r0_ts", after=WINDOWS[0]
    ),
    "tailrace-3-joins": tailrace_joins,
    "spark-format-4-3-joins": spark_joins,
    "floor-3": floor,
}


def ids(joined: DataFrame) -> DataFrame:
    """The left row's id and the ids of each label, in order: what all queries of three labels agree on."""
    columns = [
        F.expr(f"array_sort(filter(transform({_name(i)}, e -> e.r{i}_id), id -> id IS NOT NULL))").alias(
            _name(i)
        )
        for i in range(len(WINDOWS))
    ]
    return joined.select(F.col("l_id").alias("id"), *columns)
