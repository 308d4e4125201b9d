"""The rows that reports of `label_maturity` are made of: counts and sketches, by window and label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it

from tailrace._bridge import arguments, calls
from tailrace._estimates import sketches

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

COUNTED = ("rows", "matched", "positives", "labels")
VERSIONS = f"array<struct<horizon:string,{','.join(f'{name}:bigint' for name in COUNTED)}>>"


@dataclass(frozen=True)
class MaturingLabel:
    """A column of labels.

    Attributes:
        name: of the column.
        elements: its labels: an array of structs, empty or null without one.
        field: of a label, its event time.
        arrival: of a label, when it arrived; None if it doesn't say.
        positive: whether an example is positive; None: if it has a label.
        truncated: whether its group was cut; null if nobody knows.
        known: whether it is known: it isn't before `since`.
    """

    name: str
    elements: Column
    field: str
    arrival: str | None
    positive: Column | None
    truncated: Column
    known: Column

    @staticmethod
    def of(
        call: str, frame: DataFrame, name: str, field: str, arrival: str | None, positive: Column | str | None
    ) -> MaturingLabel:
        times = [arguments.text(field, "labels"), *([] if arrival is None else [arrival])]
        column = arguments.named(name)
        many = calls.holds_groups(frame, call, name, times)
        flag = f"{name}_truncated"
        return MaturingLabel(
            name,
            F.filter(column if many else F.array(column), lambda label: label.isNotNull()),
            field,
            arrival,
            F.expr(positive) if isinstance(positive, str) else positive,
            arguments.named(flag) if flag in frame.columns else F.lit(None).cast("boolean"),
            column.isNotNull() if many else F.lit(True),
        )

    def delays(self, time: Column) -> Column:
        """A struct with what the rows of the report are made of."""

        def since(moment: Column) -> Column:
            return F.unix_micros(moment) - F.unix_micros(time)

        def delay(label: Column) -> Column:
            arrived = F.lit(None).cast("bigint") if self.arrival is None else since(label[self.arrival])
            return F.struct(since(label[self.field]).alias("event"), arrived.alias("arrival"))

        return F.struct(
            F.lit(self.name).alias("label"),
            F.transform(self.elements, delay).alias("delays"),
            (F.size(self.elements) > 0 if self.positive is None else self.positive).alias("positive"),
            self.truncated.alias("truncated"),
            self.known.alias("known"),
        )


def has_versions(frame: DataFrame) -> bool:
    """True if its rows are versions of examples, at horizons."""
    return {"horizon", "final"} <= set(frame.columns)


def horizons_of(versions: DataFrame) -> list[str]:
    """The horizons of versions, in any order. It is a pass over that column."""
    rows = versions.where("horizon IS NOT NULL").select("horizon").distinct().collect()
    return [row.horizon for row in rows]


def sums(
    frame: DataFrame, labels: Sequence[MaturingLabel], time: Column, length: int, horizons: Sequence[str]
) -> DataFrame:
    """A row for each window and label: counts, and a sketch of the delays.

    Args:
        frame: examples.
        labels: their columns of labels.
        time: of an example.
        length: of a window, in microseconds.
        horizons: of their versions, in order, each as the rows have it; none if they have no versions.
    """
    rows = frame.where(F.col("_mark").isNull()) if "_mark" in frame.columns else frame
    versions = has_versions(frame)
    of_labels = rows.select(
        *window_of(time, length),
        (F.col("horizon") if versions else F.lit(None).cast("string")).alias("horizon"),
        (F.col("final") if versions else F.lit(True)).alias("final"),
        F.explode(F.array(*(label.delays(time) for label in labels))).alias("of"),
    ).where("of.known")
    # A row for each label of an example; one without a position for an example without any.
    each = of_labels.select(
        "window_start",
        "window_end",
        "horizon",
        "final",
        "of.label",
        "of.positive",
        "of.truncated",
        F.posexplode_outer("of.delays"),
    )
    is_first = F.coalesce(F.col("pos"), F.lit(0)) == 0

    def counts(of: Column) -> list[Column]:
        return [
            F.count_if(of & is_first).alias("rows"),
            F.count_if(of & (F.col("pos") == 0)).alias("matched"),
            F.count_if(of & is_first & F.col("positive")).alias("positives"),
            F.count_if(of & F.col("pos").isNotNull()).alias("labels"),
        ]

    def of_final(value: Column) -> Column:
        return F.when(F.col("final"), value)

    found = [F.struct(F.lit(h).alias("horizon"), *counts(F.col("horizon") == h)) for h in horizons]
    return each.groupBy("window_start", "window_end", "label").agg(
        *counts(F.col("final")),
        F.sum(of_final(F.when(is_first, F.col("truncated").cast("bigint")))).alias("truncated"),
        sketches.of(of_final(F.col("col.event"))).alias("event_sketch"),
        sketches.of(of_final(F.col("col.arrival"))).alias("arrival_sketch"),
        (F.array(*found) if found else F.lit(None)).cast(VERSIONS).alias("versions"),
    )


def merged_versions(horizons: Sequence[str]) -> Column:
    """The counts of several rows of reports, as an aggregate: one element for each horizon that they have."""

    def total(horizon: str, name: str) -> Column:
        of_horizon = F.filter("versions", lambda version: version["horizon"] == horizon)
        added = F.aggregate(of_horizon, F.lit(0).cast("bigint"), lambda sum_, one: sum_ + one[name])
        return F.sum(added).alias(name)

    found = [
        F.struct(F.lit(horizon).alias("horizon"), *(total(horizon, name) for name in COUNTED))
        for horizon in horizons
    ]
    return (F.array(*found) if found else F.lit(None)).cast(VERSIONS).alias("versions")


def window_of(time: Column, length: int, offset: int = 0) -> list[Column]:
    """Start and end of a time's window; null for none. Spark's own window function drops such rows.

    Args:
        time: of a row.
        length: of a window, in microseconds.
        offset: by how much windows begin later than multiples of it.
    """
    micros = F.unix_micros(time)
    start = micros - F.pmod(micros - offset, F.lit(length))
    return [
        F.timestamp_micros(start).alias("window_start"),
        F.timestamp_micros(start + length).alias("window_end"),
    ]
