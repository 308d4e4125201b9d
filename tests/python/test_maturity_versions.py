"""`tailrace.label_maturity` of what `examples` gives with horizons: several labels, and several versions."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

import tailrace
from example_frames import examples, frame
from tailrace import TailraceJoinError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

_HORIZONS = [5, 20]
# Seconds after the impression.
_LABELS = {"click": 10, "buy": 60}
_CLICKED: dict[str, Any] = {"labels": {"click": "at", "buy": "at"}, "time": "at"}
_COUNTS = ("rows", "matched", "positives", "labels")


def _rows(seed: int, hour: int) -> list[list[tuple[int, int, int]]]:
    """Impressions, clicks and orders of an hour: an id, a user, a second."""
    rng = random.Random(seed)
    begin = 3600 * hour
    return [
        [(i, rng.randrange(20), begin + s) for i, s in enumerate(rng.sample(range(600), 80))] for _ in "icb"
    ]


def _made(
    spark: SparkSession,
    rows: list[list[tuple[int, int, int]]],
    emit: Any,  # noqa: ANN401
    name: str = "examples",
) -> DataFrame:
    frames = [frame(spark, *of) for of in rows]
    made = examples(frames[0], name=name)
    for (label, after), events in zip(_LABELS.items(), frames[1:], strict=True):
        made = made.label(label, events, time="at", after=f"{after} seconds")
    return made.horizons(*(f"{h} seconds" for h in _HORIZONS), emit=emit).batch()


def _counts(rows: list[list[tuple[int, int, int]]], label: int, horizon: int) -> tuple[int, int, int]:
    """Examples, those with the label up to a horizon, and its events, by brute force."""
    end = min(horizon, list(_LABELS.values())[label])
    groups = [
        sum(user == other and second <= at <= second + end for _, other, at in rows[1 + label])
        for _, user, second in rows[0]
    ]
    return len(groups), sum(map(bool, groups)), sum(groups)


@pytest.mark.slow
def test_each_label_is_told_at_each_horizon(spark: SparkSession, tmp_path: Path) -> None:
    hours = [_rows(seed, seed) for seed in range(2)]
    made = _made(spark, hours[0], "all").union(_made(spark, hours[1], "all", "later"))
    report = tailrace.label_maturity(spark, made, **_CLICKED, positive={"buy": "size(click) > 0"})
    found = report.collect()
    assert [(row.window_start.minute, row.label) for row in found] == [(0, "buy"), (0, "click")] * 2
    for i, row in enumerate(found):
        label = list(_LABELS).index(row.label)
        expected = [_counts(hours[i // 2], label, h) for h in (*_HORIZONS, 60)]
        assert [v.horizon for v in row.versions] == ["5 seconds", "20 seconds", "1 minute"]
        assert [(v.rows, v.matched, v.labels) for v in row.versions] == expected
        assert (row.rows, row.matched, row.labels) == expected[-1]
        # What is positive at a horizon is so by the columns of then.
        clicked = [_counts(hours[i // 2], 0, h)[1] for h in (*_HORIZONS, 60)]
        assert [v.positives for v in row.versions] == clicked
        # The horizons of the rows, as none are named.
        assert [one.seconds for one in row.in_by] == [5, 20, 60]
        assert row.in_by[0].event == pytest.approx(expected[0][2] / expected[-1][2])
    report.write.parquet(str(tmp_path / "maturity"))
    merged = tailrace.merge_maturity(spark.read.parquet(str(tmp_path / "maturity"))).collect()
    for row in merged:
        of = [one for one in found if one.label == row.label]
        for version, each in zip(row.versions, zip(*(one.versions for one in of), strict=True), strict=True):
            assert {v.horizon for v in each} == {version.horizon}
            assert [version[name] for name in _COUNTS] == [sum(v[name] for v in each) for name in _COUNTS]


@pytest.mark.slow
def test_versions_that_came_out_are_counted_before_the_final_ones_have(spark: SparkSession) -> None:
    made = _made(spark, _rows(3, 0), "changes")
    report = tailrace.label_maturity(spark, made.where("NOT final"), **_CLICKED)
    for row in report.collect():
        assert (row.rows, row.match_rate, row.positive_rate, row.event_delay) == (0, None, None, None)
        assert row.versions[0].rows == 80
        assert row.versions[1].rows < 80
    named = tailrace.label_maturity(spark, made, **_CLICKED, horizons=["1 second"]).collect()
    assert [[one.seconds for one in row.in_by] for row in named] == [[1], [1]]


def test_reports_of_before_there_were_versions_merge(spark: SparkSession) -> None:
    report = tailrace.label_maturity(spark, _made(spark, _rows(4, 0), "all"), **_CLICKED)
    merged = tailrace.merge_maturity(report.drop("versions")).collect()
    assert [(row.rows, row.versions) for row in merged] == [(80, None)] * 2


def test_a_horizon_that_is_no_duration_is_refused(spark: SparkSession) -> None:
    made = _made(spark, _rows(5, 0), "all").selectExpr("* EXCEPT (horizon)", "'soon' AS horizon")
    with pytest.raises(TailraceJoinError, match=r"`horizon` of tailrace\.label_maturity is 'soon'"):
        tailrace.label_maturity(spark, made, **_CLICKED)


@pytest.mark.slow
def test_preflight_says_what_the_versions_at_a_horizon_find(spark: SparkSession) -> None:
    rows = _rows(6, 0)
    # Both streams go on, so that no window is open.
    served, clicked = ([*of, (1000, 1000, 900)] for of in rows[:2])
    expected = tailrace.preflight(
        frame(spark, *served),
        frame(spark, *clicked),
        on="user",
        left_time="at",
        right_time="at",
        after=[f"{h} seconds" for h in (*_HORIZONS, 60)],
    ).summary.collect()
    versions = tailrace.join(
        frame(spark, *rows[0]),
        frame(spark, *rows[1]),
        on="user",
        left_time="at",
        right_time="at",
        after="1 minute",
        horizons=[f"{h} seconds" for h in _HORIZONS],
    )
    (found,) = tailrace.label_maturity(spark, versions, labels={"labels": "at"}, time="at").collect()
    told = [(v.rows, v.matched, v.labels) for v in found.versions]
    assert [(row.left_rows - row.open_left, row.matched, row.labels) for row in expected] == told
