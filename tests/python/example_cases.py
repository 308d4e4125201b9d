"""Random definitions of training examples over random rows, and what comes out of them by brute force."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import count
from typing import TYPE_CHECKING, Any

import tailrace
from oracles import WHOLE, Event, Impression, LabelOracle
from streams import at

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import DataFrame

    from tailrace.testing import StreamTest
    from tailrace.testing.streams import Source

IMPRESSION = "id long, user long, item int, at timestamp"
EVENT = "event long, user int, item int, at timestamp"
EVENTS = ("click", "buy", "share")


@dataclass(frozen=True)
class Attributed:
    """An attribution, and its weights by brute force."""

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


ATTRIBUTIONS = [
    Attributed(tailrace.last_touch(), _last),
    Attributed(tailrace.first_touch(), lambda ago: _last(ago)[::-1]),
    Attributed(tailrace.linear(), lambda ago: [Fraction(1)] * len(ago)),
    Attributed(tailrace.time_decay("10 seconds"), _decay),
    Attributed(tailrace.position(0.4, 0.2, 0.4), _position),
]


@dataclass(frozen=True)
class Case:
    labels: list[LabelOracle]
    attributions: list[Attributed | None]
    lefts: list[Impression]
    events: dict[str, list[Event]]
    horizons: tuple[int, ...] = ()
    emit: str = "all"
    options: Mapping[str, Any] = field(default_factory=dict)

    def define(self, impressions: DataFrame, frames: dict[str, DataFrame]) -> tailrace.Examples:
        made = tailrace.examples(impressions, on=["user", "item"], time="at", **self.options)
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
        if self.horizons:
            ends = [f"{end} seconds" for end in self.horizons]
            made = made.horizons(*ends, emit=self.emit)  # type: ignore[arg-type]
        return made

    def expected(self) -> dict[int, list[Any]]:
        """Of each impression its labels, or its versions: a horizon, `final`, `changed`, and the labels."""
        if self.horizons:
            return {left.id: self._versions(left) for left in self.lefts}
        return {left.id: self._labels(left, self.longest) for left in self.lefts}

    @property
    def longest(self) -> int:
        return max(label.after for label in self.labels)

    def _labels(self, left: Impression, horizon: int) -> list[Any]:
        def until(events: Sequence[Event]) -> list[Event]:
            return [e for e in events if e.second <= left.second + horizon]

        return [label.group(left, self.lefts, until(self.events[label.name])) for label in self.labels]

    def _versions(self, left: Impression) -> list[Any]:
        ends = (*self.horizons, self.longest)
        looked = (ends[0], ends[-1]) if self.emit == "defer" else ends
        labels = [self._labels(left, end) for end in looked]
        versions = []
        for i, now in enumerate(labels):
            before = labels[i - 1] if i else None
            final = i == len(looked) - 1
            gained = before is not None and any(a[0] and not b[0] for a, b in zip(now, before, strict=True))
            comes = {"changes": final or now != before, "late_positives": gained}.get(self.emit, True)
            if i == 0 or comes:
                versions.append((looked[i], final, None if before is None else now != before, now))
        return versions

    def found(self, rows: Sequence[dict[str, Any]]) -> dict[int, list[Any]]:
        if not self.horizons:
            assert len(rows) == len({row["id"] for row in rows})
            return {row["id"]: self._groups(row) for row in rows}
        versions: dict[int, list[Any]] = {}
        for row in rows:
            horizon = int(row["horizon"].split()[0]) * (60 if "minute" in row["horizon"] else 1)
            version = (horizon, row["final"], row["changed"], self._groups(row))
            versions.setdefault(row["id"], []).append(version)
        return versions

    def _groups(self, row: dict[str, Any]) -> list[Any]:
        return [self._group(row, label) for label in self.labels]

    def _group(self, row: dict[str, Any], label: LabelOracle) -> tuple[list[tuple[int, int]], bool]:
        group = [(e["event"], int(e["credit"] * WHOLE) if "credit" in e else WHOLE) for e in row[label.name]]
        return group, row.get(f"{label.name}_truncated", False)


def random_case(seed: int, *, horizons: bool = False) -> Case:
    """Each impression has a time of its own, and each event of a kind: the order of ties isn't known."""
    draw = random.Random(seed)
    ids = count()
    labels, attributions = [], []
    for name in EVENTS[: draw.randint(1, 3)]:
        attribution = draw.choice([None, None, *ATTRIBUTIONS])
        labels.append(
            LabelOracle(
                name,
                draw.choice([("user",), ("user", "item"), ("user", "item")]),
                0 if horizons and attribution else draw.choice([0, 0, 5]),
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
        name: [Event(next(ids), key(3), key(2), s) for s in draw.sample(range(300), 60)] for name in EVENTS
    }
    case = Case(labels, attributions, lefts, events)
    if not horizons:
        return case
    ends = tuple(end for end in draw.choice([(3,), (0, 7), (5, 20, 40)]) if end < case.longest)
    return replace(case, horizons=ends, emit=draw.choice(["all", "changes", "late_positives", "defer"]))


def values(row: Impression | Event) -> tuple[Any, ...]:
    return row.id, row.user, row.item, at(row.second)


def streamed(case: Case, test: StreamTest, draw: random.Random) -> list[dict[str, Any]]:
    sources: dict[str, Source] = {name: test.source(EVENT) for name in EVENTS}
    sources["impressions"] = test.source(IMPRESSION)
    frames = {name: source.frame.withWatermark("at", "100 seconds") for name, source in sources.items()}
    waiting = {"impressions": list(case.lefts)} | {name: list(rows) for name, rows in case.events.items()}
    for rows in waiting.values():
        rows.sort(key=lambda row: row.second + draw.randrange(80))
    with test.query(case.define(frames["impressions"], frames).stream()) as query:
        while any(waiting.values()):
            for name, rows in waiting.items():
                taken = draw.randint(0, 15)
                sources[name].add(*map(values, rows[:taken]))
                del rows[:taken]
            query.run()
            if draw.random() < 0.1:
                query.stop()
                query.restart()
        for name, source in sources.items():
            source.add((9000, 9, 9, at(5000)) if name == "impressions" else (9001, 9, 9, at(5000)))
        query.run()
        return query.rows()
