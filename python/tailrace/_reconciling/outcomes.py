"""The comparison by key: each key once, with the rows that both sides have of it.

    side      key   content                      key   landed  batch  columns
    landed    7     position 1, click []    ->   7     1       1      [click]
    batch     7     position 1, click [e1]       8     0       1      []        missing
    batch     8     position 2, click []         9     2       1      []        extra

A key that a side has more than once isn't joined: its rows are counted by their content.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it

from tailrace._bridge import arguments
from tailrace._estimates.maturity_rows import window_of
from tailrace._reconciling.content import comparable
from tailrace._reconciling.subject import MARK

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from tailrace._reconciling.subject import Subject

SIDES = ("landed", "batch")
FACTS = ("rows", "matched", "labels", "weight", "matched_weight")


@dataclass(frozen=True)
class Sides:
    """The rows that are compared.

    Attributes:
        subject: their columns.
        landed: ordinary landed rows.
        batch: the answer.
        aside: landed rows that are no ordinary ones; None if there can be none.
        whole: the answer without its sample; None if there is no sample.
        window: length and offset of the windows, in microseconds.
    """

    subject: Subject
    landed: DataFrame
    batch: DataFrame
    aside: DataFrame | None
    whole: DataFrame | None
    window: tuple[int, int]

    def rows(self, *sides: str) -> DataFrame:
        """The rows of some sides, each with `side`, `start`, its key, `weight`, `mark` and `content`."""
        frames = {"landed": self.landed, "batch": self.batch, "aside": self.aside, "whole": self.whole}
        each = [self._rows(side, frame) for side in sides if (frame := frames[side]) is not None]
        return reduce(lambda one, other: one.union(other), each)

    def keys(self) -> list[str]:
        """The names of the keys in these rows."""
        return [f"k{i}" for i in range(len(self.subject.keys))]

    def _rows(self, side: str, frame: DataFrame) -> DataFrame:
        subject = self.subject
        length, offset = self.window

        def value(name: str) -> Column:
            kind = subject.type_of(name)
            return arguments.named(name) if name in frame.columns else F.lit(None).cast(kind)

        weight = F.lit(1.0) if subject.weight is None else value_or(frame, subject.weight, F.lit(1.0))
        content = [value(name).alias(subject.at(name)) for name in subject.columns]
        return frame.select(
            F.lit(side).alias("side"),
            (F.unix_micros(window_of(arguments.named(subject.time), length, offset)[0])).alias("start"),
            *(arguments.named(name).alias(at) for at, name in zip(self.keys(), subject.keys, strict=True)),
            weight.cast("double").alias("weight"),
            value_or(frame, MARK, F.lit(None)).cast("string").alias("mark"),
            F.struct(F.lit(True).alias("is_row"), *content).alias("content"),
        )


def value_or(frame: DataFrame, name: str, other: Column) -> Column:
    """A column of a frame, or another value if it hasn't the column."""
    return F.coalesce(arguments.named(name), other) if name in frame.columns else other


def outcomes(sides: Sides, *, with_aside: bool = False) -> DataFrame:
    """A row for each key.

    It has the columns of the key, `start` of the window, `landed_rows` and `batch_rows`, the contents
    `landed` and `batch`, `columns`, the names of those that differ, `missing`, `extra` and `differing`, the
    numbers of such rows, and the sums that `summary` adds up.

    Args:
        sides: the rows.
        with_aside: adds `aside`, the rows of the key that are no ordinary ones, and `whole`, the content that
            the answer has without its sample.
    """
    subject = sides.subject
    rows = sides.rows("landed", "batch", *(("aside", "whole") if with_aside else ()))

    def of(side: str, value: Column) -> Column:
        return F.when(F.col("side") == side, value)

    marked = F.struct("mark", "content")
    of_key = rows.groupBy(*sides.keys()).agg(
        F.coalesce(*(F.min(of(side, F.col("start"))) for side in reversed(SIDES))).alias("start"),
        *(F.count_if(F.col("side") == side).alias(f"{side}_rows") for side in SIDES),
        *(F.first(of(side, F.col("content")), ignorenulls=True).alias(side) for side in SIDES),
        *(
            F.sum(of(side, value)).alias(f"{side}_{name}")
            for side in SIDES
            for name, value in _facts(subject).items()
        ),
        *(
            [
                F.collect_list(of("aside", marked)).alias("aside"),
                F.first(of("whole", F.col("content")), ignorenulls=True).alias("whole"),
            ]
            if with_aside
            else []
        ),
    )
    of_key = of_key.where("landed_rows + batch_rows > 0")
    return _judged(of_key, subject)


def _facts(subject: Subject) -> dict[str, Column]:
    """The numbers of a row that are added up, by label."""
    facts: dict[str, Column] = {}
    for i, label in enumerate(subject.labels):
        group = F.col(f"content.{subject.at(label)}")
        # A label that isn't known, from before its `since`, counts nowhere.
        known, matched = group.isNotNull(), F.coalesce(F.size(group) > 0, F.lit(False))
        weight = F.coalesce("weight", F.lit(1.0))
        values = (
            known.cast("bigint"),
            matched.cast("bigint"),
            F.when(known, F.size(group)).otherwise(0).cast("bigint"),
            F.when(known, weight).otherwise(0.0),
            F.when(matched, weight).otherwise(0.0),
        )
        facts |= {f"{name}{i}": value for name, value in zip(FACTS, values, strict=True)}
    return facts


def _judged(of_key: DataFrame, subject: Subject) -> DataFrame:
    def differs(name: str) -> Column:
        ours, theirs = (part(side, subject, name) for side in SIDES)
        return ~ours.eqNullSafe(theirs)

    single = (F.col("landed_rows") == 1) & (F.col("batch_rows") == 1)
    names = F.array(*(F.when(differs(name), F.lit(name)) for name in subject.columns)).cast("array<string>")
    surplus = F.col("landed_rows") - F.col("batch_rows")
    columns = F.when(single, F.array_compact(names)).otherwise(F.array().cast("array<string>"))
    judged = of_key.withColumn("columns", columns)
    return judged.withColumns(
        {
            "missing": F.greatest(-surplus, F.lit(0)),
            "extra": F.greatest(surplus, F.lit(0)),
            "differing": (F.size("columns") > 0).cast("bigint"),
            "repeated": ((F.col("landed_rows") > 1) | (F.col("batch_rows") > 1)).cast("bigint"),
        }
    )


def part(side: str, subject: Subject, name: str) -> Column:
    """A column in the content of a side, as a value that Spark compares."""
    return comparable(F.col(side).getField(subject.at(name)), subject.type_of(name))


def with_repeated(found: DataFrame, sides: Sides) -> DataFrame:
    """The same outcomes, with the rows of repeated keys compared by their content.

    Rows of equal content are taken away from both sides. Of those that are left, one of each side makes a
    pair that differs, and what one side has more is missing or extra.
    """
    subject, keys = sides.subject, sides.keys()
    others = [f"of_{key}" for key in keys]
    chosen = found.where("repeated = 1").select(
        *(F.col(k).alias(o) for k, o in zip(keys, others, strict=True))
    )
    rows = sides.rows(*SIDES)
    of_content = (
        rows.join(chosen, _same(keys, others), "left_semi")
        .select("side", *keys, _whole_content(subject).alias("content"))
        .groupBy(*keys, "content")
        .agg(*(F.count_if(F.col("side") == side).alias(side) for side in SIDES))
        .groupBy(*(F.col(k).alias(o) for k, o in zip(keys, others, strict=True)))
        .agg(F.sum(F.least(*SIDES)).alias("same"))
    )
    joined = found.join(of_content, _same(keys, others), "left").drop(*others)
    least = F.least("landed_rows", "batch_rows")
    differing = F.when(F.col("repeated") == 1, least - F.col("same")).otherwise(F.col("differing"))
    return joined.withColumn("differing", differing).drop("same")


def _whole_content(subject: Subject) -> Column:
    parts = [part("content", subject, name).alias(subject.at(name)) for name in subject.columns]
    return F.struct(F.lit(True).alias("is_row"), *parts)


def _same(ours: Sequence[str], theirs: Sequence[str]) -> Column:
    pairs = (F.col(one).eqNullSafe(F.col(other)) for one, other in zip(ours, theirs, strict=True))
    return reduce(lambda one, other: one & other, pairs)
