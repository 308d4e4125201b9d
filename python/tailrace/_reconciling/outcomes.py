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
    from collections.abc import Mapping

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
    """A column of a frame, or another value if it lacks the column."""
    return F.coalesce(arguments.named(name), other) if name in frame.columns else other


def outcomes(sides: Sides, *, with_aside: bool = False, by_content: bool = False) -> DataFrame:
    """A row for each key.

    It has the columns of the key, `start` of the window, `landed_rows` and `batch_rows`, the contents
    `landed` and `batch`, `columns`, the names of those that differ, `missing`, `extra` and `differing`, the
    numbers of such rows, and the sums that are added up by window. The plan has the answer once: in a session
    of Spark Connect, a definition's counts can't be there twice.

    Args:
        sides: the rows.
        with_aside: adds `aside`, the rows of the key that are no ordinary ones, and `whole`, the content that
            the answer has without its sample.
        by_content: compares the rows of repeated keys. Rows of equal content are taken away from both sides.
            Then one row of each side makes a pair that differs, and the rest of one side is missing or extra.
            It takes another aggregation of all rows.
    """
    subject, keys = sides.subject, sides.keys()
    rows = sides.rows("landed", "batch", *(("aside", "whole") if with_aside else ()))
    values = _values(subject, with_aside=with_aside)
    same = F.lit(0).cast("bigint").alias("same")
    if by_content:
        content = F.when(F.col("side").isin(*SIDES), _whole_content(subject))
        rows = rows.groupBy(*keys, content.alias("equal")).agg(*_merged(values))
        values = {kind: {name: F.col(name) for name in of} for kind, of in values.items()}
        same = F.sum(F.least(*(f"{side}_rows" for side in SIDES))).alias("same")
    of_key = rows.groupBy(*keys).agg(*_merged(values, flat=by_content), same)
    started = of_key.withColumn("start", F.coalesce("batch_start", "landed_start"))
    return _judged(started.where("landed_rows + batch_rows > 0"), subject, by_content=by_content)


def _values(subject: Subject, *, with_aside: bool) -> dict[str, dict[str, Column]]:
    """The values that the rows of a key are merged into, by the way of merging."""

    def of(side: str, value: Column) -> Column:
        return F.when(F.col("side") == side, value)

    content = F.col("content")
    return {
        "min": {f"{side}_start": of(side, F.col("start")) for side in SIDES},
        "sum": {f"{side}_rows": (F.col("side") == side).cast("bigint") for side in SIDES}
        | {f"{side}_{name}": of(side, value) for side in SIDES for name, value in _facts(subject).items()},
        "first": {side: of(side, content) for side in (*SIDES, *(("whole",) if with_aside else ()))},
        "list": {"aside": of("aside", F.struct("mark", "content"))} if with_aside else {},
    }


def _merged(values: Mapping[str, Mapping[str, Column]], *, flat: bool = False) -> list[Column]:
    """The aggregates; with `flat`, of values that were merged before."""
    return [
        *(F.min(value).alias(name) for name, value in values["min"].items()),
        *(F.sum(value).alias(name) for name, value in values["sum"].items()),
        *(F.first(value, ignorenulls=True).alias(name) for name, value in values["first"].items()),
        *(
            (F.flatten(F.collect_list(name)) if flat else F.collect_list(value)).alias(name)
            for name, value in values["list"].items()
        ),
    ]


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


def _judged(of_key: DataFrame, subject: Subject, *, by_content: bool) -> DataFrame:
    def differs(name: str) -> Column:
        ours, theirs = (part(side, subject, name) for side in SIDES)
        return ~ours.eqNullSafe(theirs)

    ours, theirs = (F.col(f"{side}_rows") for side in SIDES)
    repeated = (ours > 1) | (theirs > 1)
    names = F.array(*(F.when(differs(name), F.lit(name)) for name in subject.columns)).cast("array<string>")
    none = F.array().cast("array<string>")
    pairs = F.least(ours, theirs) - F.col("same") if by_content else F.lit(0)
    judged = of_key.withColumn(
        "columns", F.when((ours == 1) & (theirs == 1), F.array_compact(names)).otherwise(none)
    )
    return judged.withColumns(
        {
            "missing": F.greatest(theirs - ours, F.lit(0)),
            "extra": F.greatest(ours - theirs, F.lit(0)),
            "differing": F.when(repeated, pairs).otherwise((F.size("columns") > 0).cast("bigint")),
            "repeated": repeated.cast("bigint"),
        }
    )


def part(side: str, subject: Subject, name: str) -> Column:
    """A column in the content of a side, as a value that Spark compares."""
    return comparable(F.col(side).getField(subject.at(name)), subject.type_of(name))


def _whole_content(subject: Subject) -> Column:
    parts = [part("content", subject, name).alias(subject.at(name)) for name in subject.columns]
    return F.struct(F.lit(True).alias("is_row"), *parts)
