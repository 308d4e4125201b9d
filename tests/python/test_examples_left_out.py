"""A label that is left out at a restart: what becomes of rows that wait, and of what is behind the join."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest

import tailrace
from streams import at
from tailrace.testing import StreamTest, crash_at_every_step

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_SERVED = "id long, user long, at timestamp"
_EVENT = "id long, user long, kind string, at timestamp"
_VALUE = "value long, user long, at timestamp"
_DELAY = 30
# Seconds after the impression, and before it.
_WINDOWS: dict[str, dict[str, Any]] = {
    "click": {"after": "10 seconds", "before": "3 seconds"},
    "share": {"after": "40 seconds"},
    "buy": {"after": "100 seconds"},
    "order": {"after": "90 seconds", "before": "15 seconds", "attribution": tailrace.linear()},
}


def _define(served: DataFrame, events: DataFrame, labels: Sequence[str], **options: Any) -> tailrace.Examples:  # noqa: ANN401
    """Labels of one stream, so that the sources of the query stay the same."""
    made = tailrace.examples(served, on="user", time="at", **options)
    for name in labels:
        made = made.label(name, events, where=f"kind = '{name}'", time="at", **_WINDOWS[name])
    return made


def _streamed(
    test: StreamTest,
    rng: random.Random,
    labels: Sequence[Sequence[str]],
    **options: Any,  # noqa: ANN401
) -> tuple[list[dict[str, Any]], dict[int, tuple[list[int], int | None]]]:
    """The rows of a query that has other labels after each start.

    Returns:
        The rows, and for each impression the clicks and the value that it has to have.
    """
    sources = [test.source(schema) for schema in (_SERVED, _EVENT, _VALUE)]
    served, events, values = (source.frame.withWatermark("at", f"{_DELAY} seconds") for source in sources)
    rows: list[list[tuple[Any, ...]]] = [[], [], []]

    def made(names: Sequence[str]) -> DataFrame:
        found = _define(served, events, names, **options)
        # Behind the join: what it gives has to be in time there.
        return found.features("profile", values, time="at").stream()

    def add(number: int) -> None:
        # None of them is late, and their times overlap those of the next micro-batch.
        seconds = [10 * number + rng.randint(0, 25) for _ in range(8)]
        kinds = [rng.choice(list(_WINDOWS)) for _ in seconds]
        columns: list[list[str]] = [[], kinds, []]
        for source, known, more in zip(sources, rows, columns, strict=True):
            new: list[tuple[Any, ...]] = [
                (len(known) + i, rng.randint(1, 3), *more[i : i + 1], s) for i, s in enumerate(seconds)
            ]
            known.extend(new)
            source.add(*((*row[:-1], at(row[-1])) for row in new))

    with test.query(made(labels[0])) as query:
        for start, names in enumerate(labels):
            if start:
                query.stop()
                query.restart(made(names))
            for number in range(4 * start, 4 * start + 4):
                add(number)
                query.run()
        sources[0].add((-1, 9, at(5000)))
        sources[1].add((-1, 9, "", at(5000)))
        sources[2].add((-1, 9, at(5000)))
        query.run()
        # The features come out a micro-batch later.
        for source, row in zip(sources, [(-2, 9), (-2, 9, ""), (-2, 9)], strict=True):
            source.add((*row, at(9000)))
        query.run()
        found = [row for row in query.rows() if row["id"] >= 0]

    def expected(user: int, second: int) -> tuple[list[int], int | None]:
        clicks = [
            i for i, u, kind, s in rows[1] if kind == "click" and u == user and second - 3 <= s <= second + 10
        ]
        newest = max((s for _, u, s in rows[2] if u == user and s <= second), default=None)
        return clicks, newest

    return found, {i: expected(user, second) for i, user, second in rows[0]}


def _check(test: StreamTest, seed: str, labels: Sequence[Sequence[str]], **options: Any) -> None:  # noqa: ANN401
    found, expected = _streamed(test, random.Random(seed), labels, **options)
    assert sorted(row["id"] for row in found) == sorted(expected)
    for row in found:
        clicks, newest = expected[row["id"]]
        assert sorted(event["id"] for event in row["click"]) == clicks, row
        profile = row["profile"] and row["profile"]["at"]
        assert (profile and profile.timestamp()) == (newest if newest is None else at(newest).timestamp())


_COMES_BACK = [("click", "share", "buy"), ("click", "share"), ("click",), ("click", "buy"), ("click",)]
_IS_GONE = [("click", "order", "share"), ("click", "share"), ("click",)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("strategy", "labels", "options"),
    [
        ("lazy", _IS_GONE, {"release_every": "batch"}),
        pytest.param("lazy", _COMES_BACK, {}, marks=pytest.mark.long),
        pytest.param("eager", _COMES_BACK, {"release_every": "15 seconds"}, marks=pytest.mark.long),
        pytest.param("eager", _IS_GONE, {}, marks=pytest.mark.long),
        pytest.param("lazy", _COMES_BACK, {"amend_for": "1 minute"}, marks=pytest.mark.long),
    ],
)
def test_rows_that_wait_are_complete_without_the_longest_label(
    stream_test: StreamTest, strategy: str, labels: Sequence[Sequence[str]], options: dict[str, Any]
) -> None:
    conf = stream_test.spark.conf
    conf.set("spark.tailrace.join.strategy", strategy)
    try:
        _check(stream_test, f"{strategy}-{options}", labels, **options)
    finally:
        conf.unset("spark.tailrace.join.strategy")


# With steps of release, the state remembers which rows a late event was too late for.
@pytest.mark.parametrize("release", ["batch", "50 seconds"])
def test_rows_that_wait_come_out_with_late_events_that_they_had_got(
    stream_test: StreamTest, release: str
) -> None:
    sources = [stream_test.source(schema) for schema in (_SERVED, _EVENT)]
    served, events = (source.frame.withWatermark("at", "1 second") for source in sources)

    def made(*labels: str) -> DataFrame:
        return _define(served, events, labels, release_every=release).stream()

    with stream_test.query(made("click", "buy")) as query:
        sources[0].add((1, 7, at(0)), (2, 7, at(30)))
        sources[1].add((10, 7, "click", at(5)), (11, 8, "view", at(30)))
        query.run()
        sources[0].add((3, 9, at(40)))
        sources[1].add((12, 8, "view", at(40)))
        query.run()
        # Behind the watermark, and taken, because the first impression waits for orders.
        sources[1].add((13, 7, "click", at(3)))
        query.run()
        assert query.rows() == []
        query.stop()
        query.restart(made("click"))
        sources[0].add((4, 9, at(50)))
        sources[1].add((14, 9, "view", at(50)))
        query.run()
        found = {row["id"]: [event["id"] for event in row["click"]] for row in query.rows()}
    assert found[1] == [13, 10]
    if release == "batch":
        assert found == {1: [13, 10], 2: []}


@pytest.mark.parametrize(
    "by",
    [
        pytest.param("parquet", marks=pytest.mark.campaign),
        pytest.param("foreachBatch", marks=pytest.mark.long),
    ],
)
def test_a_label_is_left_out_and_comes_back_after_a_crash_at_any_step(
    spark: SparkSession, tmp_path: Path, by: str
) -> None:
    def pipeline(root: Path, served: DataFrame, events: DataFrame) -> DataStreamWriter:
        starts = root / "starts"
        starts.mkdir(exist_ok=True)
        number = len(list(starts.iterdir()))
        (starts / str(number)).touch()
        names = ["click"] if number % 2 else ["click", "buy"]
        left, right = (frame.withWatermark("at", "0 seconds") for frame in (served, events))
        made = _define(left, right, names, release_every="batch").stream()
        # Behind it an operator that leaves out what is late.
        rows = made.selectExpr("id", "at", "string(click.id) as clicks").dropDuplicatesWithinWatermark(["id"])
        if by == "parquet":
            return rows.writeStream.format("parquet").option("path", str(root / "out"))

        def write(frame: DataFrame, batch: int) -> None:
            again = frame.select("id", "clicks").collect()
            file = root / "out" / f"{batch}.json"
            file.parent.mkdir(exist_ok=True)
            if not file.exists():
                file.write_text(json.dumps([list(row) for row in again]))

        return rows.writeStream.foreachBatch(write)

    def read(root: Path) -> list[tuple[Any, ...]]:
        if by == "parquet":
            rows = spark.read.parquet(str(root / "out")).select("id", "clicks")
            return [tuple(row) for row in rows.collect()]
        return [tuple(row) for file in (root / "out").iterdir() for row in json.loads(file.read_text())]

    crash_at_every_step(
        spark,
        tmp_path,
        pipeline,
        [_SERVED, _EVENT],
        [
            ([(1, 7, at(0)), (2, 7, at(20))], [(1, 7, "click", at(5))]),
            ([(3, 8, at(40))], [(2, 7, "click", at(25)), (3, 8, "click", at(45))]),
            ([(4, 9, at(90))], [(4, 9, "click", at(91)), (5, 9, "buy", at(92))]),
        ],
        read,
        most=8,
    )
