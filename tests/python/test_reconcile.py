"""`tailrace.reconcile` against brute force, on rows with injected differences."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it

import tailrace
from reconciled import (
    KEYS,
    LABELS,
    WINDOW,
    Example,
    brute_force,
    by_window,
    changed,
    examples,
    frame,
    key_of,
    respelled,
    second_of,
)
from streams import at

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

_ASKED: dict[str, Any] = {"keys": list(KEYS), "time": "at", "window": f"{WINDOW} seconds"}


def _reconciled(
    spark: SparkSession, landed: Sequence[Example], batch: Sequence[Example]
) -> tailrace.Reconciliation:
    return tailrace.reconcile(frame(spark, landed), frame(spark, batch), **_ASKED)


def _injected(rng: random.Random, batch: list[Example]) -> tuple[list[Example], list[Example]]:
    """A landed side with missing, extra, differing and repeated rows, and an answer with repeated keys."""
    landed: list[Example] = []
    twice: list[Example] = []
    for row in batch:
        match rng.randrange(12):
            case 0:
                continue
            case 1:
                landed.append(changed(rng, row)[0])
            case 2:
                landed += [respelled(rng, row), row]
            case 3:
                landed += [changed(rng, row)[0], changed(rng, row)[0]]
            case 4:
                landed += [respelled(rng, row), row]
                twice += [row, changed(rng, row)[0]]
            case 5:
                landed += [respelled(rng, row), row]
                twice.append(row)
            case 6:
                landed += [row, row._replace(user=77)]
            case _:
                landed.append(respelled(rng, row))
    rng.shuffle(landed)
    return landed, [*batch, *twice]


@pytest.mark.contract
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_counts_and_keys_are_those_of_brute_force(spark: SparkSession, seed: int) -> None:
    rng = random.Random(seed)
    landed, batch = _injected(rng, examples(rng, 150))
    windows, differences = brute_force(landed, batch)
    assert {one.kind for one in differences.values()} == {"missing", "extra", "differing", "duplicate"}
    result = _reconciled(spark, landed, batch)

    found = by_window(result.windows.collect())
    assert found.keys() == windows.keys()
    for start, counted in windows.items():
        row = found[start]
        assert row.status == "compared"
        for name in ("landed_rows", "batch_rows", "missing", "extra", "differing", "repeated_keys"):
            assert row[name] == getattr(counted, name), (start, name)
        wrong = counted.missing + counted.extra + counted.differing
        assert row.per_thousand == pytest.approx(1000 * wrong / counted.batch_rows)
        assert row.explained == 0

    summary = result.summary.collect()
    assert [(second_of(row.window_start), row.label) for row in summary] == [
        (start, label) for start in sorted(windows) for label in LABELS
    ]
    for row in summary:
        counted = windows[second_of(row.window_start)]
        for side in ("landed", "batch"):
            rows, matched, labels = (
                counted.of_label[f"{row.label} {side}_{n}"] for n in ("rows", "matched", "labels")
            )
            assert (row[f"{side}_rows"], row[f"{side}_matched"], row[f"{side}_labels"]) == (
                rows,
                matched,
                labels,
            )
            assert row[f"{side}_rate"] == pytest.approx(matched / rows)
        assert row.differing == counted.of_label[f"{row.label} differing"]
        wrong = counted.missing + counted.extra + row.differing
        assert row.per_thousand == pytest.approx(1000 * wrong / counted.batch_rows)

    keys = result.differences.collect()
    assert len(keys) == len(differences)
    for row in keys:
        expected = differences[key_of(row)]
        told = (
            row.kind,
            frozenset(row["columns"]),
            row.landed_rows,
            row.batch_rows,
            row.differences,
            row.reason,
        )
        assert told == (
            expected.kind,
            expected.columns,
            expected.landed_rows,
            expected.batch_rows,
            expected.differences,
            None,
        )
        assert (row.landed is None, row.batch is None) == (not row.landed_rows, not row.batch_rows)
    assert not result.equal
    assert not result.explained
    assert result.totals.differences == sum(one.differences for one in differences.values())


@pytest.mark.contract(any_spark=True)
def test_the_same_rows_are_equal_however_they_are_spelled(spark: SparkSession) -> None:
    rng = random.Random(3)
    batch = examples(rng, 100)
    result = _reconciled(spark, [respelled(rng, row) for row in reversed(batch)], batch)
    assert result.equal
    assert result.explained
    assert result.totals.reasons == {}
    assert result.differences.collect() == []


@pytest.mark.slow
def test_rows_of_two_sides_that_are_repeated_as_often_are_equal(spark: SparkSession) -> None:
    batch = examples(random.Random(4), 20)
    result = _reconciled(spark, batch * 3, batch * 3)
    assert result.equal
    assert sum(row.repeated_keys for row in result.windows.collect()) == len(batch)


_VALUES = """
    SELECT * FROM VALUES
        (1, parse_json('{"a": 1, "b": [2]}'), make_interval(0, 1), 'x', binary('x'),
            map('k', map('m', 2, 'l', 1))),
        (2, parse_json('1'), make_interval(0, 12), 'x', null, map('m', map())),
        (3, cast(date'2026-01-01' AS variant), null, 'x', null, null)
    AS rows(id, variant, span, text, bytes, nested)
"""
_OTHERS = """
    SELECT * FROM VALUES
        (1, parse_json('{"b": [2], "a": 1}'), make_interval(0, 1), 'x', binary('x'),
            map('k', map('l', 1, 'm', 2))),
        (2, parse_json('"1"'), make_interval(1), 'y', binary(''), map('m', cast(null AS map<string, int>))),
        (3, parse_json('"2026-01-01"'), null, 'x', null, null)
    AS rows(id, variant, span, text, bytes, nested)
"""


@pytest.mark.contract
def test_variants_intervals_and_nested_maps_are_compared(spark: SparkSession) -> None:
    landed, batch = (spark.sql(rows).withColumn("at", F.lit(at(0))) for rows in (_OTHERS, _VALUES))
    result = tailrace.reconcile(landed, batch, keys="id", time="at")
    # PySpark can't collect such intervals.
    found = result.differences.select("key.id", "columns").collect()
    rows = [(row.id, set(row["columns"])) for row in found]
    # An interval of twelve months is one of a year. A date isn't its text.
    assert sorted(rows) == [(2, {"variant", "text", "bytes", "nested"}), (3, {"variant"})]


@pytest.mark.slow
def test_only_windows_of_the_range_are_compared(spark: SparkSession) -> None:
    rows = [Example(1, "a", n * WINDOW + 50, None, None, [], []) for n in range(6)]
    wrong = [row._replace(position=1.0) for row in rows]

    def statuses(landed: Sequence[Example], **asked: Any) -> list[tuple[int, str, int | None]]:  # noqa: ANN401
        found = tailrace.reconcile(frame(spark, landed), frame(spark, rows), **{**_ASKED, **asked})
        told = [(second_of(r.window_start), r.status, r.differing) for r in found.windows.collect()]
        assert found.totals.differing == sum(differing or 0 for _, _, differing in told)
        assert found.differences.count() == found.totals.differences
        return told

    outside = [(0, "outside", None), (100, "outside", None)]
    compared = [(200, "compared", 1), (300, "compared", 1)]
    assert statuses(wrong[2:4]) == [*outside, *compared, (400, "outside", None), (500, "outside", None)]
    bounded = statuses(wrong, since=at(200), until="2026-01-01T12:06:40Z")
    assert bounded == [*outside, *compared, (400, "outside", None), (500, "outside", None)]
    # A named range has to have landed, even where no row has.
    wide = statuses(wrong[2:4], since=at(100), until=at(500))
    assert wide == [outside[0], (100, "compared", 0), *compared, (400, "compared", 0), (500, "outside", None)]
    # A window that is cut isn't compared.
    assert [status for _, status, _ in statuses(wrong, since=at(201))][:3] == ["outside"] * 3
    shifted = statuses(wrong[:3], offset="60 seconds")
    assert [start for start, _, _ in shifted] == [-40, 60, 160, 260, 360, 460]


@pytest.mark.parametrize("zone", ["Asia/Kathmandu", pytest.param("America/St_Johns", marks=pytest.mark.slow)])
def test_windows_are_those_of_utc_in_each_time_zone(spark: SparkSession, zone: str) -> None:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        rows = [Example(1, "a", n * 1800, None, None, [], []) for n in range(5)]
        asked = {**_ASKED, "window": "1 hour"}
        result = tailrace.reconcile(
            frame(spark, rows), frame(spark, rows), **asked, until="2026-01-01 14:00:00Z"
        )
        told = [
            (r.start, r.landed_rows, r.status)
            for r in result.windows.selectExpr(
                "unix_seconds(window_start) AS start", "landed_rows", "status"
            ).collect()
        ]
        noon = int(at(0).timestamp())
        assert told == [(noon, 2, "compared"), (noon + 3600, 2, "compared"), (noon + 7200, 1, "outside")]
    finally:
        assert before is not None
        spark.conf.set("spark.sql.session.timeZone", before)


@pytest.mark.slow
def test_rows_without_a_time_and_no_rows_at_all(spark: SparkSession) -> None:
    rows = [Example(1, "a", 50, None, None, [], [])]
    untimed = frame(spark, rows).selectExpr("* EXCEPT (at)", "cast(null AS timestamp) AS at")
    both = untimed.unionByName(frame(spark, rows))
    result = tailrace.reconcile(both, frame(spark, rows), **_ASKED)
    assert [(r.window_start is None, r.status) for r in result.windows.collect()] == [
        (True, "untimed"),
        (False, "compared"),
    ]
    assert result.equal
    nothing = _reconciled(spark, [], rows)
    assert [r.status for r in nothing.windows.collect()] == ["outside"]
    assert not nothing.equal
    assert not nothing.explained
    assert _reconciled(spark, [], []).totals.windows == 0


def _named(frame: DataFrame, **columns: str) -> DataFrame:
    return frame.selectExpr(*(columns.get(name, name) for name in frame.columns))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"keys": ["nobody"]}, "`keys`"),
        ({"keys": ["facts"]}, r"key column `facts` is map<string,double>"),
        ({"time": "user"}, "`time`"),
        ({"columns": ["nobody"]}, "`columns`"),
        ({"labels": ["facts"]}, "`labels`"),
        ({"window": "soon"}, "`window`"),
        ({"since": "soon"}, "`since`"),
        ({"landed": {"item": "1 AS item"}}, "column `item` is int in `landed`"),
        (
            {"landed": {"click": "transform(click, c -> c.id) AS click"}},
            "The column `click` is array<bigint>",
        ),
        ({"landed": {"position": "user AS `where`"}}, "position"),
    ],
)
def test_what_makes_no_sense_is_refused(spark: SparkSession, changed: dict[str, Any], said: str) -> None:
    batch = frame(spark, [Example(1, "a", 50, None, None, [], [])])
    landed = _named(batch, **changed.get("landed", {}))
    asked = {**_ASKED, **{k: v for k, v in changed.items() if k != "landed"}}
    with pytest.raises(tailrace.TailraceJoinError, match=said):
        tailrace.reconcile(landed, batch, **asked)


def test_wrong_types_are_refused_by_name(spark: SparkSession) -> None:
    batch = frame(spark, [Example(1, "a", 50, None, None, [], [])])
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("`keys` is missing", {"keys": None}),
        ("`time` is missing", {"time": None}),
        ("`tables` is for a definition", {"tables": {"click": batch}}),
        ("`since` must be", {"since": 12}),
        ("`definition` must be", {"definition": "examples"}),
        ("`format` must be", {"format": 1}),
    ]
    for said, more in wrong:
        definition = more.pop("definition", batch)
        with pytest.raises(TypeError, match=said):
            tailrace.reconcile(batch, definition, **{**_ASKED, **more})
    stream = spark.readStream.format("rate").load()
    clicked = frame(spark, [])
    definition = tailrace.examples(batch, on="user", time="at").label(
        "clicked", stream.selectExpr("value AS user", "timestamp AS at"), time="at", after="1 minute"
    )
    with pytest.raises(tailrace.TailraceJoinError, match="`clicked` is a stream") as caught:
        tailrace.reconcile(batch, definition)
    assert "`tables` of tailrace.reconcile" in caught.value.__notes__[0]
    with pytest.raises(TypeError, match="The examples have no `buy`"):
        tailrace.reconcile(batch, definition, {"clicked": clicked, "buy": clicked})
    for ours, theirs in ((stream, batch), (batch, stream)):
        with pytest.raises(tailrace.TailraceJoinError, match="is a stream"):
            tailrace.reconcile(ours, theirs, **_ASKED)
