"""Training examples against brute force, as streams and as batch DataFrames."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass
from fractions import Fraction
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

import tailrace
from examples_oracle import WHOLE, Event, Impression, LabelOracle
from streams import at
from tailrace.testing import StreamTest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from tailrace.testing.streams import Source

_IMPRESSION = "id long, user long, item int, at timestamp"
_EVENT = "event long, user int, item int, at timestamp"
_EVENTS = ("click", "buy", "share")


@dataclass(frozen=True)
class _Attributed:
    ours: tailrace.Attribution
    weights: Callable[[list[int]], Sequence[Fraction]]


def _last(ago: list[int]) -> list[Fraction]:
    return [Fraction(int(i == len(ago) - 1)) for i in range(len(ago))]


def _decay(ago: list[int]) -> list[Fraction]:
    return [Fraction(2.0 ** (-(a - min(ago)) / 10)) for a in ago]


def _position(ago: list[int]) -> list[Fraction]:
    if len(ago) == 1:
        return [Fraction(1)]
    middle = [Fraction(1, 5) / (len(ago) - 2)] * (len(ago) - 2) if len(ago) > 2 else []
    return [Fraction(2, 5), *middle, Fraction(2, 5)]


_ATTRIBUTIONS = [
    None,
    None,
    _Attributed(tailrace.last_touch(), _last),
    _Attributed(tailrace.first_touch(), lambda ago: _last(ago)[::-1]),
    _Attributed(tailrace.linear(), lambda ago: [Fraction(1)] * len(ago)),
    _Attributed(tailrace.time_decay("10 seconds"), _decay),
    _Attributed(tailrace.position(0.4, 0.2, 0.4), _position),
]


@dataclass(frozen=True)
class _Case:
    labels: list[LabelOracle]
    attributions: list[_Attributed | None]
    lefts: list[Impression]
    events: dict[str, list[Event]]

    def define(self, impressions: DataFrame, frames: dict[str, DataFrame]) -> tailrace.Examples:
        made = tailrace.examples(impressions, on=["user", "item"], time="at")
        for label, attribution in zip(self.labels, self.attributions, strict=True):
            made = made.label(
                label.name,
                frames[label.name],
                time="at",
                on=None if len(label.on) == 2 else list(label.on),
                before=f"{label.before} seconds",
                after=f"{label.after} seconds",
                match=label.match,  # type: ignore[arg-type]
                max_matches=label.max_matches,
                attribution=None if attribution is None else attribution.ours,
            )
        return made

    def expected(self) -> dict[int, list[Any]]:
        return {
            left.id: [label.group(left, self.lefts, self.events[label.name]) for label in self.labels]
            for left in self.lefts
        }

    def found(self, rows: Sequence[dict[str, Any]]) -> dict[int, list[Any]]:
        assert len(rows) == len({row["id"] for row in rows})
        return {row["id"]: [self._group(row, label) for label in self.labels] for row in rows}

    def _group(self, row: dict[str, Any], label: LabelOracle) -> tuple[list[tuple[int, int]], bool]:
        group = [(e["event"], int(e["credit"] * WHOLE) if "credit" in e else WHOLE) for e in row[label.name]]
        return group, row.get(f"{label.name}_truncated", False)


def _case(seed: int) -> _Case:
    """Each impression has a time of its own, and each event of a kind: the order of ties isn't known."""
    draw = random.Random(seed)
    ids = count()
    labels, attributions = [], []
    for name in _EVENTS[: draw.randint(1, 3)]:
        attribution = draw.choice(_ATTRIBUTIONS)
        labels.append(
            LabelOracle(
                name,
                draw.choice([("user",), ("user", "item"), ("user", "item")]),
                draw.choice([0, 0, 5]),
                draw.choice([0, 10, 60]),
                draw.choice(["all", "all", "first", "last", "nearest"]),
                draw.choice([None, 1, 2]),
                None if attribution is None else attribution.weights,
            )
        )
        attributions.append(attribution)

    def key(most: int) -> int | None:
        return None if draw.random() < 0.05 else draw.randrange(most)

    lefts = [Impression(next(ids), key(3), key(2), s) for s in draw.sample(range(300), 60)]
    events = {
        name: [Event(next(ids), key(3), key(2), s) for s in draw.sample(range(300), 60)] for name in _EVENTS
    }
    return _Case(labels, attributions, lefts, events)


def _values(row: Impression | Event) -> tuple[Any, ...]:
    return row.id, row.user, row.item, at(row.second)


def _streamed(case: _Case, test: StreamTest, draw: random.Random) -> list[dict[str, Any]]:
    sources: dict[str, Source] = {name: test.source(_EVENT) for name in _EVENTS}
    sources["impressions"] = test.source(_IMPRESSION)
    frames = {name: source.frame.withWatermark("at", "100 seconds") for name, source in sources.items()}
    waiting = {"impressions": list(case.lefts)} | {name: list(rows) for name, rows in case.events.items()}
    for rows in waiting.values():
        rows.sort(key=lambda row: row.second + draw.randrange(80))
    with test.query(case.define(frames["impressions"], frames).stream()) as query:
        while any(waiting.values()):
            for name, rows in waiting.items():
                taken = draw.randint(0, 15)
                sources[name].add(*map(_values, rows[:taken]))
                del rows[:taken]
            query.run()
            if draw.random() < 0.1:
                query.stop()
                query.restart()
        for name, source in sources.items():
            source.add((9000, 9, 9, at(5000)) if name == "impressions" else (9001, 9, 9, at(5000)))
        query.run()
        return query.rows()


def _check(spark: SparkSession, folder: Path, seed: int) -> None:
    case = _case(seed)
    with StreamTest(spark, folder, "12:00") as test:
        streamed = _streamed(case, test, random.Random(seed))
    impressions = spark.createDataFrame(list(map(_values, case.lefts)), _IMPRESSION)
    frames = {
        name: spark.createDataFrame(list(map(_values, rows)), _EVENT) for name, rows in case.events.items()
    }
    batch = [row.asDict(recursive=True) for row in case.define(impressions, frames).batch().collect()]
    expected = case.expected()
    for label, found in (("batch", case.found(batch)), ("stream", case.found(streamed))):
        for left in case.lefts:
            assert found[left.id] == expected[left.id], (seed, label, left, case.labels)
        assert len(found) == len(expected), (seed, label)


@pytest.mark.parametrize("seed", [1, 2])
def test_labels_of_random_streams_are_those_of_brute_force(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    _check(spark, tmp_path, seed)


@pytest.mark.campaign
def test_labels_of_many_random_streams(spark: SparkSession, tmp_path: Path) -> None:
    for seed in range(100, 100 + int(os.environ.get("SEEDS", "3"))):
        _check(spark, tmp_path / str(seed), seed)
