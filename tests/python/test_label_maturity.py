"""`tailrace.label_maturity` against brute force over the same rows, and what it refuses."""

from __future__ import annotations

import datetime as dt
import math
import random
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it

import tailrace
from tailrace import TailraceJoinError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
CLICK = "struct<clicked_at:timestamp,arrived_at:timestamp,price:double>"
SCHEMA = (
    f"id long, served_at timestamp, labels array<{CLICK}>, labels_truncated boolean, "
    "first struct<bought_at:timestamp>, _mark string"
)
HORIZONS = (30.0, 600.0)
QUANTILES = (0.0, 0.5, 0.9, 1.0)
ARGUMENTS: dict[str, Any] = {
    "labels": {"labels": "clicked_at", "first": "bought_at"},
    "time": "served_at",
    "arrival": {"labels": "arrived_at"},
    "positive": {"labels": "exists(labels, l -> l.price > 5)"},
    "horizons": ["30 seconds", dt.timedelta(minutes=10)],
    "quantiles": QUANTILES,
}


def at(second: float) -> dt.datetime:
    return NOON + dt.timedelta(seconds=second)


def example(rng: random.Random, number: int) -> tuple[Any, ...]:
    """An example of one of four hours, with up to three clicks, some of them before it."""
    if number % 40 == 0:
        return number, None, [], False, None, None
    served = rng.uniform(0, 4 * 3600)
    clicks = []
    for _ in range(rng.choice([0, 0, 1, 3])):
        clicked = served + rng.uniform(-60, 1800)
        clicks.append((at(clicked), at(clicked + rng.expovariate(0.01)), rng.uniform(0, 10)))
    bought = (at(served + rng.uniform(0, 3600)),) if rng.random() < 0.2 else None
    mark = "late_left" if number % 50 == 1 else None
    return number, at(served), clicks, len(clicks) == 3, bought, mark


def micros(since: dt.datetime, moment: dt.datetime) -> int:
    return (moment - since) // dt.timedelta(microseconds=1)


def told(delays: list[int]) -> list[tuple[float, float]] | None:
    """Quantiles of a few values: the least value that so many are up to."""
    found = sorted(delays)
    return [(q, found[max(0, math.ceil(q * len(found)) - 1)] / 1e6) for q in QUANTILES] if found else None


def share(delays: list[int], seconds: float) -> float | None:
    return sum(d <= seconds * 1e6 for d in delays) / len(delays) if delays else None


def oracle(rows: list[tuple[Any, ...]], hours: int) -> dict[tuple[dt.datetime | None, str], dict[str, Any]]:
    """The report by brute force, by window and label."""
    windows: dict[tuple[dt.datetime | None, str], list[Any]] = {}
    length = dt.timedelta(hours=hours)
    for _, served, clicks, cut, bought, mark in rows:
        if mark is None:
            start = served and EPOCH + (served - EPOCH) // length * length
            both = {
                "labels": ([c[:2] for c in clicks], any(c[2] > 5 for c in clicks), cut),
                "first": ([(bought[0], None)] if bought else [], bought is not None, None),
            }
            for label, (found, positive, truncated) in both.items():
                windows.setdefault((start, label), []).append((served, found, positive, truncated))
    report = {}
    for (start, label), of in windows.items():
        event = [micros(served, c) for served, found, _, _ in of for c, _ in found]
        arrival = [micros(served, a) for served, found, _, _ in of for _, a in found if a is not None]
        report[start, label] = {
            "window_end": start and start + length,
            "rows": len(of),
            "matched": sum(bool(found) for _, found, _, _ in of),
            "positives": sum(positive for _, _, positive, _ in of),
            "labels": len(event),
            "truncated": sum(cut for *_, cut in of) if label == "labels" else None,
            "event_delay": told(event),
            "arrival_delay": told(arrival),
            "in_by": [(h, share(event, h), share(arrival, h)) for h in HORIZONS],
            "rank_error": 0.0,
            "versions": None,
        }
    return report


def reported(report: DataFrame) -> dict[tuple[dt.datetime | None, str], dict[str, Any]]:
    found = {}
    for row in report.drop("event_sketch", "arrival_sketch").collect():
        values = row.asDict()
        assert values.pop("match_rate") == row.matched / row.rows
        assert values.pop("positive_rate") == row.positives / row.rows
        for name in ("event_delay", "arrival_delay", "in_by"):
            values[name] = values[name] and [tuple(each) for each in values[name]]
        start = values.pop("window_start")
        values["window_end"] = row.window_end and row.window_end.astimezone(dt.UTC)
        found[start and start.astimezone(dt.UTC), values.pop("label")] = values
    return found


def rows_of(seed: int, count: int = 400) -> list[tuple[Any, ...]]:
    rng = random.Random(seed)
    return [example(rng, number) for number in range(count)]


@pytest.mark.contract(any_spark=True)
def test_reports_of_hours_of_days_and_of_all_are_those_of_brute_force(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = rows_of(3)
    folder = str(tmp_path / "examples")
    spark.createDataFrame(rows, SCHEMA).repartition(3).write.parquet(folder)
    hourly = tailrace.label_maturity(spark, folder, **ARGUMENTS)
    assert reported(hourly) == oracle(rows, 1)
    assert [(r.window_start, r.label) for r in hourly.collect()][:3] == [
        (None, "first"),
        (None, "labels"),
        (NOON.astimezone().replace(tzinfo=None), "first"),
    ]
    stored = str(tmp_path / "maturity")
    hourly.write.parquet(stored)
    told_by = {"horizons": ARGUMENTS["horizons"], "quantiles": QUANTILES}
    two_hourly = tailrace.merge_maturity(spark.read.parquet(stored), window="2 hours", **told_by)
    assert reported(two_hourly) == oracle(rows, 2)
    # All windows of one label, with those of rows without a time.
    one = tailrace.merge_maturity(two_hourly, **told_by).collect()
    assert [(r.label, r.rows) for r in one] == [("first", 392), ("labels", 392)]
    assert one[0].window_end - one[0].window_start == dt.timedelta(hours=4)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
def test_reports_of_other_rows_are_those_of_brute_force(spark: SparkSession, seed: int) -> None:
    rows = rows_of(100 + seed, 900)
    frame = spark.createDataFrame(rows, SCHEMA)
    assert reported(tailrace.label_maturity(spark, frame, **ARGUMENTS)) == oracle(rows, 1)


@pytest.mark.slow
def test_many_labels_have_the_error_that_the_report_states(spark: SparkSession) -> None:
    # Delays of 0 to 59,999 seconds in an order of their own: the rank of each is known.
    count = 60_000
    delay = F.expr(f"(id * 7919) % {count}")
    served = F.timestamp_seconds(F.lit(1_767_268_800) + F.col("id") % 1800)
    clicked = F.timestamp_micros(F.unix_micros("served_at") + delay * 1_000_000)
    frame = spark.range(count).select("id", served.alias("served_at"))
    frame = frame.withColumn("labels", F.array(F.struct(clicked.alias("clicked_at"))))
    ranks = [0.01, 0.25, 0.5, 0.9, 0.99]
    report = tailrace.label_maturity(
        spark, frame, labels={"labels": "clicked_at"}, time="served_at", window="1 minute"
    )
    merged = tailrace.merge_maturity(report, horizons=["15000 seconds"], quantiles=ranks).collect()[0]
    assert merged.labels == count
    assert 0 < merged.rank_error <= 0.003
    assert [d.quantile for d in merged.event_delay] == ranks
    for each in merged.event_delay:
        assert each.seconds / count == pytest.approx(each.quantile, abs=2 * merged.rank_error)
    assert merged.in_by[0].event == pytest.approx(0.25, abs=2 * merged.rank_error)
    assert merged.arrival_delay is None
    assert merged.in_by[0].arrival is None


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"labels": {"clicks": "clicked_at"}}, "TAILRACE_COLUMN_NOT_FOUND.*`clicks`"),
        ({"labels": {"labels": "seen_at"}}, "TAILRACE_COLUMN_TYPE.*array of structs, with TIMESTAMP seen_at"),
        ({"labels": {"id": "clicked_at"}}, "TAILRACE_COLUMN_TYPE.*`id`.*BIGINT"),
        ({"arrival": {"labels": "price"}}, "TAILRACE_COLUMN_TYPE.*TIMESTAMP clicked_at and price"),
        ({"time": "id"}, "TAILRACE_COLUMN_TYPE.*TIMESTAMP"),
        ({"window": "0 seconds"}, "TAILRACE_OPTION_INVALID.*`window`"),
        ({"horizons": ["soon"]}, "TAILRACE_OPTION_INVALID.*`horizons`"),
        ({"quantiles": [50]}, "TAILRACE_OPTION_INVALID.*`quantiles` of .* '50'"),
        (
            {"arrival": {"clicks": "arrived_at"}},
            "TAILRACE_OPTION_INVALID.*`arrival` of .* 'clicks'",
        ),
        ({"labels": {}}, "TAILRACE_OPTION_INVALID.*`labels` of .* '{}'"),
    ],
)
def test_what_makes_no_sense_is_refused(spark: SparkSession, changed: dict[str, Any], said: str) -> None:
    frame = spark.createDataFrame([], SCHEMA)
    with pytest.raises(TailraceJoinError, match=said):
        tailrace.label_maturity(
            spark, frame, **({"labels": {"labels": "clicked_at"}, "time": "served_at"} | changed)
        )


def test_wrong_types_are_refused_by_name(spark: SparkSession) -> None:
    frame = spark.createDataFrame([], SCHEMA)
    with pytest.raises(TypeError, match="`horizons` must be a duration"):
        tailrace.label_maturity(spark, frame, labels={"labels": "clicked_at"}, time="served_at", horizons=[5])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="`quantiles` has a str"):
        tailrace.merge_maturity(
            tailrace.label_maturity(spark, frame, labels={"labels": "clicked_at"}, time="served_at"),
            quantiles=["0.5"],  # type: ignore[list-item]
        )
    with pytest.raises(TypeError, match="`examples` must be a path"):
        tailrace.label_maturity(spark, 5, labels={"labels": "clicked_at"}, time="served_at")  # type: ignore[arg-type]


def test_rows_before_since_do_not_count(spark: SparkSession) -> None:
    rows = [(at(0), [(at(9),)]), (at(1), []), (at(2), None)]
    frame = spark.createDataFrame(rows, "served_at timestamp, labels array<struct<clicked_at:timestamp>>")
    (found,) = tailrace.label_maturity(
        spark, frame, labels={"labels": "clicked_at"}, time="served_at"
    ).collect()
    assert (found["rows"], found["matched"], found["match_rate"]) == (2, 1, 0.5)
    assert found["versions"] is None


@pytest.mark.contract
def test_one_duration_is_no_list_of_horizons(spark: SparkSession) -> None:
    rows = spark.createDataFrame([], SCHEMA)
    with pytest.raises(TypeError, match="`horizons` must be a list of durations"):
        tailrace.label_maturity(
            spark, rows, labels={"labels": "clicked_at"}, time="served_at", horizons="1 hour"
        )
