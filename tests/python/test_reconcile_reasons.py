"""The reasons that `tailrace.reconcile` finds for differences, on what streams have emitted."""

from __future__ import annotations

import datetime as dt
import random
from typing import TYPE_CHECKING, Any

import pytest

import tailrace
from example_frames import SCHEMA, frame
from streams import at

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame, Row, SparkSession

    from tailrace.testing import StreamTest

Rows = tuple[int, int, int]
_NAMES = ("impressions", "click", "buy")
_AFTER = {"click": 10, "buy": 40}
_END = dt.timedelta(days=3650)
# They close the windows of all rows up to a minute before.
_MINUTE: dict[str, list[Rows]] = {name: [(90, 9, 120)] for name in _NAMES}
_HOUR: dict[str, list[Rows]] = {name: [(91, 9, 3600)] for name in _NAMES}


class Pipeline:
    """A definition with two labels that is run as a stream, and its batch answer over the same rows."""

    def __init__(
        self,
        test: StreamTest,
        change: Callable[[tailrace.Examples], tailrace.Examples],
        **options: Any,  # noqa: ANN401
    ) -> None:
        self._change, self._options = change, options
        self.test = test
        self.labels: dict[str, Any] = options.pop("labels", {})
        self.sources = {name: test.source(SCHEMA) for name in _NAMES}
        self.given: dict[str, list[Rows]] = {name: [] for name in _NAMES}
        frames = {name: source.frame.withWatermark("at", "1 second") for name, source in self.sources.items()}
        self.definition = self._defined(frames)
        self.query = test.query(self.definition.stream())

    def _defined(self, frames: dict[str, DataFrame]) -> tailrace.Examples:
        made = tailrace.examples(
            frames["impressions"], on="user", time="at", release_every="batch", **self._options
        )
        for name, after in _AFTER.items():
            more = self.labels.get(name, {})
            made = made.label(name, frames[name], time="at", after=f"{after} seconds", **more)
        return self._change(made)

    def run(self, **rows: Sequence[Rows]) -> None:
        """Runs a micro-batch of rows: an id, a user, a second."""
        for name, of in rows.items():
            self.sources[name].add(*((*row[:-1], at(row[-1])) for row in of))
            self.given[name] += of
        self.query.run()

    def reconciled(
        self,
        spark: SparkSession,
        damage: Callable[[list[dict[str, Any]]], list[dict[str, Any]]] = list,
    ) -> tailrace.Reconciliation:
        """Emits all rows that are left, damages them, and compares."""
        self.query.advance(self.test.now + _END)
        tables = {name: frame(spark, *rows) for name, rows in self.given.items()}
        schema = self.definition.stream().schema
        for field in schema.fields:
            field.nullable = True
        rows = [tuple(row[name] for name in schema.names) for row in damage(self.query.rows())]
        landed = spark.createDataFrame(rows, schema)
        return tailrace.reconcile(landed, self.definition, tables, window="1 minute")


def _same(definition: tailrace.Examples) -> tailrace.Examples:
    return definition


def _told(result: tailrace.Reconciliation) -> list[tuple[Any, ...]]:
    def of(row: Row) -> tuple[Any, ...]:
        rest = (row.key.horizon,) if "horizon" in row.key else ()
        return (row.key.user, row.kind, sorted(row["columns"]), row.reason, *rest)

    rows = sorted(map(of, result.differences.collect()), key=str)
    # The counts are those of the keys.
    reasons: dict[tuple[str, str | None], int] = {}
    for row in rows:
        reasons[row[1], row[3]] = reasons.get((row[1], row[3]), 0) + 1
    assert result.totals.reasons == reasons
    return rows


@pytest.mark.contract(any_spark=True)
@pytest.mark.parametrize("horizons", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_stream_without_late_rows_is_equal_to_the_batch(
    spark: SparkSession, stream_test: StreamTest, horizons: bool
) -> None:
    rng = random.Random(5)
    pipeline = Pipeline(
        stream_test, (lambda one: one.horizons("5 seconds", emit="changes")) if horizons else _same
    )
    for begin in range(0, 300, 60):
        rows = {
            name: sorted(
                ((100 * begin + i, rng.randrange(6), begin + rng.randrange(60)) for i in range(12)),
                key=lambda row: row[2],
            )
            for name in _NAMES
        }
        # A second after the newest row of the part before, at least.
        pipeline.run(**{name: [row for row in of if row[2] > begin] for name, of in rows.items()})
    result = pipeline.reconciled(spark)
    assert _told(result) == []
    assert result.equal
    assert result.totals.landed_rows == result.totals.batch_rows > 40
    summary = result.summary.collect()
    assert sum(row.landed_matched for row in summary if row.label == "click") > 0
    for row in summary:
        assert (row.landed_rate, row.landed_labels) == (row.batch_rate, row.batch_labels)


@pytest.mark.contract(any_spark=True)
def test_marked_rows_explain_what_was_late(spark: SparkSession, stream_test: StreamTest) -> None:
    pipeline = Pipeline(stream_test, _same, on_late="mark")
    pipeline.run(impressions=[(1, 7, 0), (2, 8, 0)], buy=[(5, 8, 3)])
    pipeline.run(**_MINUTE)
    # A late click, a late impression, and a late order that isn't the only difference of its example.
    pipeline.run(click=[(3, 7, 5)], impressions=[(4, 6, 1)], buy=[(6, 8, 4)])
    pipeline.run(**_HOUR)
    result = pipeline.reconciled(spark)
    assert _told(result) == [
        (6, "missing", [], "late_left"),
        (7, "differing", ["click"], "late_right"),
        (8, "differing", ["buy"], "late_right"),
    ]
    assert result.explained
    assert not result.equal
    window = result.windows.collect()[0]
    assert (window.missing, window.extra, window.differing, window.explained) == (1, 0, 2, 3)
    labels = {row.label: (row.differing, row.explained) for row in result.summary.collect()[:2]}
    assert labels == {"click": (1, 2), "buy": (1, 2)}


def test_a_label_that_was_dropped_is_not_explained(spark: SparkSession, stream_test: StreamTest) -> None:
    pipeline = Pipeline(stream_test, _same)
    pipeline.run(impressions=[(1, 7, 0)])
    pipeline.run(**_MINUTE)
    pipeline.run(click=[(3, 7, 5)])
    result = pipeline.reconciled(spark)
    assert _told(result) == [(7, "differing", ["click"], None)]
    assert not result.explained


def test_a_late_label_explains_neither_another_one_nor_another_column(
    spark: SparkSession, stream_test: StreamTest
) -> None:
    pipeline = Pipeline(stream_test, _same, on_late="mark")
    pipeline.run(impressions=[(1, 7, 0), (2, 8, 0), (9, 6, 0), (10, 5, 0)], click=[(40, 5, 2)])
    pipeline.run(**_MINUTE)
    pipeline.run(click=[(3, 7, 5), (4, 8, 5), (5, 6, 5), (6, 5, 5)])
    pipeline.query.advance(stream_test.now + _END)
    # The answer has an order of user 7 besides, another impression of user 8, and another click of user 6. It
    # lacks a click of user 5 that has landed.
    pipeline.given["buy"].append((50, 7, 6))
    pipeline.given["impressions"][1] = (22, 8, 0)
    pipeline.given["click"].remove((5, 6, 5))
    pipeline.given["click"].append((55, 6, 5))
    pipeline.given["click"].remove((40, 5, 2))
    result = pipeline.reconciled(spark)
    assert _told(result) == [
        (5, "differing", ["click"], None),
        (6, "differing", ["click"], None),
        (7, "differing", ["buy", "click"], None),
        (8, "differing", ["click", "id"], None),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("match", ["first", "last"])
def test_another_label_in_place_of_a_late_one(
    spark: SparkSession, stream_test: StreamTest, match: str
) -> None:
    pipeline = Pipeline(stream_test, _same, on_late="mark", labels={"click": {"match": match}})
    pipeline.run(impressions=[(1, 7, 0)], click=[(2, 7, 5)])
    pipeline.run(**_MINUTE)
    pipeline.run(click=[(3, 7, 3 if match == "first" else 7)])
    assert _told(pipeline.reconciled(spark)) == [(7, "differing", ["click"], "late_right")]


def test_amendments_explain_the_labels_that_they_have(spark: SparkSession, stream_test: StreamTest) -> None:
    pipeline = Pipeline(stream_test, _same, amend_for="1 hour")
    pipeline.run(impressions=[(1, 7, 0), (2, 8, 0)])
    pipeline.run(**_MINUTE)
    pipeline.run(click=[(3, 7, 5), (4, 8, 5)])
    pipeline.run(buy=[(5, 7, 6)])
    # One that nobody has emitted.
    pipeline.given["buy"].append((50, 8, 7))
    assert _told(pipeline.reconciled(spark)) == [
        (7, "differing", ["buy", "click"], "amended"),
        (8, "differing", ["buy", "click"], None),
    ]


@pytest.mark.parametrize("emit", ["changes", pytest.param("all", marks=pytest.mark.slow)])
def test_labels_after_a_horizon(spark: SparkSession, stream_test: StreamTest, emit: Any) -> None:  # noqa: ANN401
    pipeline = Pipeline(stream_test, lambda one: one.horizons("5 seconds", "20 seconds", emit=emit))
    pipeline.run(impressions=[(1, 7, 0), (2, 8, 0)])
    pipeline.run(**{name: [(80, 9, 30)] for name in _NAMES})
    # Both versions are emitted; the final one isn't.
    pipeline.run(buy=[(3, 7, 3), (4, 8, 15)])
    pipeline.run(**_MINUTE)
    result = pipeline.reconciled(spark)
    told = _told(result)
    first = (7, "differing", ["buy"], "horizon", "5 seconds")
    if emit == "all":
        assert told == [
            (7, "differing", ["buy"], "horizon", "20 seconds"),
            first,
            (8, "differing", ["buy"], "horizon", "20 seconds"),
        ]
    else:
        # The answer has emitted the change of user 8 at 20 seconds.
        assert told == [first, (8, "missing", [], "horizon", "20 seconds")]
    assert result.explained


@pytest.mark.slow
def test_a_version_that_is_lost_and_a_label_that_the_final_version_lacks(
    spark: SparkSession, stream_test: StreamTest
) -> None:
    pipeline = Pipeline(stream_test, lambda one: one.horizons("5 seconds"))
    pipeline.run(impressions=[(1, 7, 0), (2, 8, 0)])
    pipeline.run(**_MINUTE)
    pipeline.query.advance(stream_test.now + _END)
    pipeline.given["buy"].append((3, 7, 3))
    pipeline.given["impressions"].append((4, 6, 0))
    told = _told(pipeline.reconciled(spark))
    assert told == [
        (6, "missing", [], None, "40 seconds"),
        (6, "missing", [], None, "5 seconds"),
        (7, "differing", ["buy"], None, "40 seconds"),
        (7, "differing", ["buy"], None, "5 seconds"),
    ]


def test_versions_that_no_late_label_explains(spark: SparkSession, stream_test: StreamTest) -> None:
    pipeline = Pipeline(stream_test, lambda one: one.horizons("5 seconds"))
    pipeline.run(impressions=[(1, 7, 0), (2, 8, 0)], click=[(1, 7, 1), (2, 8, 8)])
    pipeline.query.advance(stream_test.now + _END)

    def damage(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The first version of user 7 is lost, and that of user 8 has a click of after its horizon."""
        (later,) = (row["click"] for row in rows if row["user"] == 8 and row["final"])
        kept = [row for row in rows if row["final"] or row["user"] != 7]
        return [row if row["final"] or row["user"] != 8 else {**row, "click": later} for row in kept]

    assert _told(pipeline.reconciled(spark, damage)) == [
        (7, "missing", [], None, "5 seconds"),
        (8, "differing", ["click"], None, "5 seconds"),
    ]


def _sampled(definition: tailrace.Examples) -> tailrace.Examples:
    return definition.sample({"size(click) = 0": 0.0, "size(buy) = 0": 0.5, "true": 1.0}, seed=3)


def test_a_sample_that_chose_by_the_labels_that_were_there(
    spark: SparkSession, stream_test: StreamTest
) -> None:
    pipeline = Pipeline(stream_test, _sampled, on_late="mark")
    users = range(20, 40)
    pipeline.run(
        impressions=[(user, user, 0) for user in (7, 8, *users)], click=[(1, user, 1) for user in users]
    )
    pipeline.run(**_MINUTE)
    # User 7 was left out as a negative. Without an order, half of the others were.
    pipeline.run(click=[(3, 7, 5)], buy=[(100 + user, user, 5) for user in users])
    pipeline.given["click"].append((60, 8, 5))
    pipeline.given["buy"] += [(70, 7, 2), (70, 8, 2)]
    result = pipeline.reconciled(spark)
    told = _told(result)
    *rest, negative, lost = told
    assert negative == (7, "missing", [], "sampled")
    # Nothing tells why the click of user 8 is missing.
    assert lost == (8, "missing", [], None)
    assert {row[0] for row in rest} == set(users)
    for row in rest:
        assert row[1:] in (
            ("missing", [], "sampled"),
            ("differing", ["buy", "weight"], "late_right"),
        )
    assert {row[1] for row in rest} == {"missing", "differing"}


def test_rates_of_a_sample_are_by_weight(spark: SparkSession) -> None:
    impressions = [(user, user, 0) for user in range(400)]
    clicks = [(1, user, 1) for user in range(0, 400, 4)]
    definition = (
        tailrace.examples(frame(spark, *impressions), on="user", time="at")
        .label("click", frame(spark, *clicks), time="at", after="10 seconds")
        .sample({"size(click) = 0": 0.2}, seed=1)
    )
    rows = definition.batch().collect()
    matched = sum(bool(row.click) for row in rows)
    result = tailrace.reconcile(definition.batch(), definition)
    row = result.summary.collect()[0]
    assert result.equal
    assert (row.landed_matched, row.landed_rows) == (matched, len(rows))
    weight = sum(one.weight for one in rows)
    assert row.landed_rate == row.batch_rate == pytest.approx(matched / weight)
    assert 0.2 < row.landed_rate < 0.3 < matched / len(rows)


@pytest.mark.slow
def test_an_extra_row_that_the_sample_of_the_answer_leaves_out(
    spark: SparkSession, stream_test: StreamTest
) -> None:
    pipeline = Pipeline(
        stream_test,
        lambda one: one.sample({"size(buy) > 0": 0.0, "true": 1.0}, seed=3),
        on_late="mark",
    )
    pipeline.run(impressions=[(1, 7, 0), (2, 8, 0)])
    pipeline.run(**_MINUTE)
    pipeline.run(buy=[(3, 7, 5)])
    pipeline.given["buy"].append((4, 8, 5))
    assert _told(pipeline.reconciled(spark)) == [
        (7, "extra", [], "sampled"),
        (8, "extra", [], None),
    ]


@pytest.mark.slow
def test_repeated_keys_of_a_definition(spark: SparkSession, stream_test: StreamTest) -> None:
    pipeline = Pipeline(stream_test, lambda one: one.horizons("5 seconds"))
    pipeline.run(impressions=[(1, 7, 0), (1, 7, 0), (2, 8, 0)], click=[(1, 7, 1)])
    pipeline.query.advance(stream_test.now + _END)
    pipeline.given["impressions"].append((2, 8, 0))
    result = pipeline.reconciled(spark)
    assert _told(result) == [
        (8, "duplicate", [], None, "40 seconds"),
        (8, "duplicate", [], None, "5 seconds"),
    ]
    (window,) = result.windows.collect()
    assert (window.missing, window.extra, window.differing, window.repeated_keys) == (2, 0, 0, 4)
