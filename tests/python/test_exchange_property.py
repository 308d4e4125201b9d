"""A query that resumes from the import of its export emits what it would have emitted without them.

Each test runs a query over a part of its input and stops it. Then the query resumes from its own checkpoint,
and a second one from an import of the first one's export. Both read the rest of the input.
"""

from __future__ import annotations

import json
import os
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

import tailrace
from streams import at
from tailrace.errors import TailraceError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame

    from tailrace.testing import Source, StreamQuery, StreamTest

_STRATEGY = "spark.tailrace.join.strategy"
_LEFT = "l_id long, user long, l_at timestamp, note string"
_RIGHT = "r_id long, user long, r_at timestamp, price double"
_REFUSALS = {"TAILRACE_STATE_EXCHANGE_UNFIT", "TAILRACE_STATE_EXCHANGE_QUERY_NEEDED"}
_STEP = 12


@dataclass(frozen=True)
class Definition:
    """A query over one stream of impressions and one or two streams of events.

    Attributes:
        options: of `tailrace.join`, or of `tailrace.examples` if there are labels.
        labels: the options of each label of examples; empty: the query is a join.
        strategy: of the join.
        by_query: whether the query's DataFrame is given to the import, not the session.
        lateness: how far an event is behind at most, in seconds.
    """

    options: dict[str, Any] = field(default_factory=dict)
    labels: tuple[dict[str, Any], ...] = ()
    strategy: str = "lazy"
    by_query: bool = True
    horizons: tuple[str, ...] = ()
    emit: str = "all"
    lateness: int = 60

    def frame(self, left: DataFrame, rights: Sequence[DataFrame]) -> DataFrame:
        if not self.labels:
            sides = {"on": "user", "left_time": "l_at", "right_time": "r_at", "after": "40 seconds"}
            return tailrace.join(left, rights[0], **(sides | self.options))
        made = tailrace.examples(left, on="user", time="l_at", **self.options)
        for number, label in enumerate(self.labels):
            given = {"time": "r_at", "after": "40 seconds"} | label
            made = made.label(f"label_{number}", rights[number % len(rights)], **given)
        if self.horizons:
            made = made.horizons(*self.horizons, emit=self.emit)  # type: ignore[arg-type]
        return made.stream()

    @property
    def is_attributed(self) -> bool:
        return any("attribution" in label for label in self.labels)


class _Life:
    """The streams of a query, and random rows of them, of which some are late."""

    def __init__(self, test: StreamTest, definition: Definition, draw: random.Random) -> None:
        self.test = test
        self.definition = definition
        self.sources: list[Source] = [test.source(_LEFT), test.source(_RIGHT), test.source(_RIGHT)]
        if len(definition.labels) < 2:
            del self.sources[2]
        self._draw = draw
        self._ids = iter(range(1, 1_000_000))
        self._step = 0

    def frame(self) -> DataFrame:
        names = ["l_at", "r_at", "r_at"]
        left, *rights = (
            source.frame.withWatermark(name, "10 seconds")
            for source, name in zip(self.sources, names, strict=False)
        )
        return self.definition.frame(left, rights)

    def step(self) -> None:
        draw = self._draw
        self._step += 1
        now = self._step * _STEP
        for number, source in enumerate(self.sources):
            most = 12 if number == 0 else self.definition.lateness
            for _ in range(draw.randint(1, 5)):
                user = None if draw.random() < 0.05 else draw.randrange(3)
                ago = draw.choice([0, 3, draw.randrange(most), draw.randrange(most)])
                value: str | float = draw.choice(["a", "b"]) if number == 0 else 0.5
                source.add((next(self._ids), user, at(now - ago), value))
            # So the watermark goes on in each stream.
            source.add((next(self._ids), 9, at(now), None))

    def end(self) -> None:
        self._step += 1000
        self.step()


def _text(rows: Sequence[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(row, default=str, sort_keys=True) for row in rows)


def _live(test: StreamTest, folder: Path, definition: Definition, draw: random.Random) -> int:
    """How many rows were emitted behind the import; 0 if it was refused by name."""
    life = _Life(test, definition, draw)
    query = test.query(life.frame(), "own")
    for _ in range(draw.randint(4, 9)):
        life.step()
        query.run()
    query.new_rows()
    query.stop()
    export, moved = folder / "export", folder / "moved"
    try:
        tailrace.export_state(test.spark, query.checkpoint, export)
        given = life.frame() if definition.by_query else test.spark
        tailrace.import_state(given, moved, export=export)
    except TailraceError as refused:
        if refused.condition not in _REFUSALS:
            raise
        assert not moved.exists()
        return 0
    query.restart()
    other = test.query(life.frame(), "moved")
    both: tuple[StreamQuery, StreamQuery] = (query, other)
    for _ in range(draw.randint(3, 6)):
        life.step()
        for one in both:
            one.run()
    for _ in range(2):
        life.end()
        for one in both:
            one.run()
    expected, found = (_text(one.new_rows()) for one in both)
    for one in both:
        one.stop()
    assert found == expected
    return len(found)


def _check(test: StreamTest, folder: Path, definition: Definition, seed: int) -> int:
    conf = test.spark.conf
    conf.set(_STRATEGY, definition.strategy)
    try:
        return _live(test, folder, definition, random.Random(seed))
    except AssertionError as wrong:
        raise AssertionError(f"seed {seed}: {definition}") from wrong
    finally:
        conf.unset(_STRATEGY)


_HORIZONS = ["5 seconds", "20 seconds"]
_CASES = {
    "later rows and steps": Definition({"release_every": "30 seconds"}, by_query=False, lateness=100),
    "later rows, eager": Definition({"release_every": "30 seconds"}, strategy="eager", lateness=100),
    "amended much": Definition({"amend_for": "60 seconds"}, lateness=100),
    "amended much, by a session": Definition({"amend_for": "60 seconds"}, by_query=False, lateness=100),
    "late rows and steps": Definition({"release_every": "30 seconds"}, by_query=False),
    "late rows, eager": Definition({"release_every": "30 seconds"}, strategy="eager"),
    "horizons": Definition({"horizons": _HORIZONS, "before": "5 seconds"}, by_query=False),
    "horizons, changes": Definition({"horizons": _HORIZONS, "emit": "changes"}),
    "early": Definition({"early": "10 seconds", "release_every": "30 seconds"}),
    "amended": Definition({"amend_for": "60 seconds"}),
    "amended, by a session": Definition({"amend_for": "60 seconds", "on_late": "mark"}, by_query=False),
    "amended versions": Definition({"amend_for": "60 seconds", "horizons": _HORIZONS}),
    "decided": Definition({"release": "decided", "match": "first"}, by_query=False),
    "exactly one": Definition({"how": "inner", "one_to_one": True}, by_query=False),
    "exactly one, late": Definition({"how": "inner", "one_to_one": True, "before": "20 seconds"}),
    "inner": Definition({"how": "inner", "before": "5 seconds", "late_labels": False}, by_query=False),
    "silence": Definition({"idle_timeout": "1 hour"}),
    "examples": Definition(labels=({"before": "5 seconds"}, {"match": "first"}), by_query=False),
    "versions of examples": Definition(labels=({}, {"after": "60 seconds"}), horizons=("10 seconds",)),
    "attributed": Definition(labels=({"attribution": tailrace.linear()},)),
    "amended examples": Definition({"amend_for": "60 seconds"}, labels=({}, {"max_matches": 2})),
}


# Further definitions of what these show once.
_CAMPAIGN = {"horizons", "early", "amended, by a session", "exactly one, late", "inner", "attributed"} | {
    "versions of examples",
    "amended examples",
    "amended",
    "amended much, by a session",
    "late rows and steps",
    "later rows, eager",
}


def _marks(name: str) -> list[pytest.MarkDecorator]:
    return [pytest.mark.campaign] if name in _CAMPAIGN else []


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param(name, marks=_marks(name)) for name in _CASES])
def test_an_import_resumes_as_the_query_itself(stream_test: StreamTest, tmp_path: Path, name: str) -> None:
    emitted = _check(stream_test, tmp_path, _CASES[name], seed=7)
    # Eager matching doesn't say which rows were late: such an export can be refused.
    assert emitted > 0 or _CASES[name].strategy == "eager"


def _random(draw: random.Random) -> Definition:
    of_join: dict[str, Any] = {"before": draw.choice(["0 seconds", "5 seconds", "20 seconds"])}
    by_query = draw.random() < 0.6
    strategy = draw.choice(["lazy", "lazy", "lazy", "eager"])
    if draw.random() < 0.25:
        of_join |= {"how": "inner", "late_labels": draw.choice([None, False])}
        if draw.random() < 0.5:
            of_join["one_to_one"] = True
        return Definition(of_join, strategy=strategy, by_query=by_query)
    shared: dict[str, Any] = {"on_late": draw.choice(["drop", "mark"])}
    shared["release_every"] = draw.choice([None, "batch", "25 seconds"])
    if draw.random() < 0.3:
        shared["amend_for"] = "50 seconds"
    if draw.random() < 0.2:
        shared["idle_timeout"] = "1 hour"
    versions = draw.choice([(), (), ("7 seconds",), ("0 seconds", "15 seconds", "30 seconds")])
    emit = draw.choice(["all", "changes", "late_positives", "defer"]) if versions else "all"
    if draw.random() < 0.4:
        labels = []
        # Both are refused beside an attribution.
        attribution = draw.random() < 0.3 and not {"amend_for", "idle_timeout"} & shared.keys()
        for _ in range(draw.randint(1, 3)):
            label: dict[str, Any] = {
                "before": "0 seconds"
                if attribution and versions
                else draw.choice(["0 seconds", "5 seconds"]),
                "after": draw.choice(["10 seconds", "40 seconds", "60 seconds"]),
                "match": draw.choice(["all", "all", "first", "last", "nearest"]),
                "max_matches": draw.choice([None, 2]),
            }
            if attribution:
                label["attribution"] = draw.choice([tailrace.linear(), tailrace.last_touch()])
            labels.append(label)
        labels[0]["after"] = "40 seconds"
        return Definition(
            shared, tuple(labels), strategy, by_query=by_query or attribution, horizons=versions, emit=emit
        )
    of_join |= shared | {"match": draw.choice(["all", "first", "last", "nearest"])}
    if versions:
        of_join |= {"horizons": list(versions), "emit": emit}
    elif "amend_for" not in shared and "idle_timeout" not in shared and draw.random() < 0.25:
        of_join |= {"release": "decided", "match": "first", "before": "0 seconds"}
    return Definition(of_join, strategy=strategy, by_query=by_query)


@pytest.mark.campaign
@pytest.mark.parametrize("number", range(int(os.environ.get("TAILRACE_EXCHANGES", "4"))))
def test_random_definitions(stream_test: StreamTest, tmp_path: Path, number: int) -> None:
    seed = int(os.environ.get("TAILRACE_SEED", "1")) * 1000 + number
    _check(stream_test, tmp_path, _random(random.Random(seed)), seed)
