"""The DataFrames of a result: counts become rows again, and differences get the names of their columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it

from tailrace._reconciling.landed import REPORT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame, Row, SparkSession

    from tailrace._reconciling.comparing import Compared
    from tailrace._reconciling.counts import WindowCounts
    from tailrace._reconciling.landed import Reported
    from tailrace._reconciling.subject import Subject

_DIFFERENCES = ("missing", "extra", "differing")
_PLACE = "start bigint, end bigint, status string"


def windows(spark: SparkSession, found: Compared, length: int, known: Sequence[Reported]) -> DataFrame:
    """`windows` of `Reconciliation`.

    Args:
        spark: the session.
        found: the counts.
        length: of a window, in microseconds.
        known: the completeness reports.
    """
    of_window = {one.start: one.values for one in known if one.length == length}
    rows: list[tuple[object, ...]] = []
    for one in found.windows:
        numbers = (one.missing, one.extra, one.differing, one.repeated, one.explained)
        told = (*numbers, one.per_thousand(one.differences)) if one.is_compared else (None,) * 6
        values = None if one.start is None else of_window.get(one.start)
        rows.append((*_place(one, length), one.landed_rows, one.batch_rows, *told, values))
    schema = (
        f"{_PLACE}, landed_rows bigint, batch_rows bigint, missing bigint, extra bigint, differing bigint, "
        f"repeated_keys bigint, explained bigint, per_thousand double, report {REPORT}"
    )
    made = _timed(spark.createDataFrame(rows, schema))
    times = {
        name: F.timestamp_micros(F.col("report").getField(name)) for name in ("low_watermark", "closed_at")
    }
    report = F.col("report")
    for name, time in times.items():
        report = report.withField(name, time)
    return made.withColumn("report", F.when(F.col("report").isNotNull(), report))


def summary(spark: SparkSession, found: Compared, length: int, subject: Subject) -> DataFrame:
    """`summary` of `Reconciliation`; likewise."""
    rows: list[tuple[object, ...]] = []
    for one in found.windows:
        for label in sorted(subject.labels):
            of = one.labels[label]
            sides = (of.landed, of.batch)
            differences = one.missing + one.extra + of.differing
            numbers = (one.missing, one.extra, of.differing, of.explained)
            rows.append(
                (
                    *_place(one, length),
                    label,
                    *(side.rows for side in sides),
                    *(side.matched for side in sides),
                    *(side.labels for side in sides),
                    *(side.rate for side in sides),
                    *((*numbers, one.per_thousand(differences)) if one.is_compared else (None,) * 5),
                )
            )
    counts = ", ".join(
        f"{side}_{name} bigint" for name in ("rows", "matched", "labels") for side in ("landed", "batch")
    )
    schema = (
        f"{_PLACE}, label string, {counts}, landed_rate double, batch_rate double, missing bigint, "
        "extra bigint, differing bigint, explained bigint, per_thousand double"
    )
    return _timed(spark.createDataFrame(rows, schema))


def differences(found: DataFrame, subject: Subject) -> DataFrame:
    """`differences` of `Reconciliation`."""
    keys = [F.col(f"k{i}").alias(name) for i, name in enumerate(subject.keys)]
    return found.select(
        F.struct(*keys).alias("key"),
        F.timestamp_micros("start").alias("window_start"),
        "kind",
        "columns",
        "landed_rows",
        "batch_rows",
        sum((F.col(name) for name in _DIFFERENCES[1:]), F.col(_DIFFERENCES[0])).alias("differences"),
        "reason",
        *(_named(side, subject).alias(side) for side in ("landed", "batch")),
    )


def shown_keys(frame: DataFrame, count: int) -> list[Row]:
    """Some of the differences with their keys as JSON, those without a reason first."""
    if count == 0:
        return []
    first = frame.orderBy(F.col("reason").isNotNull(), "window_start", F.to_json("key"))
    return first.select(F.to_json("key").alias("key"), "kind", "columns", "reason").limit(count).collect()


def _named(side: str, subject: Subject) -> Column:
    parts = [F.col(side).getField(subject.at(name)).alias(name) for name in subject.columns]
    return F.when(F.col(side).isNotNull(), F.struct(*parts)) if parts else F.lit(None).cast("struct<>")


def _place(window: WindowCounts, length: int) -> tuple[int | None, int | None, str]:
    return window.start, None if window.start is None else window.start + length, window.status


def _timed(frame: DataFrame) -> DataFrame:
    times = {"start": "window_start", "end": "window_end"}
    return frame.select(
        *(
            F.timestamp_micros(F.col(name)).alias(times[name]) if name in times else F.col(name)
            for name in frame.columns
        )
    )
