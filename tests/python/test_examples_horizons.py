"""Versions of training examples: what their columns say, and what doesn't go together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import tailrace
from example_frames import FAR, SCHEMA, examples, frame
from streams import at
from tailrace import TailraceJoinError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from tailrace.testing import StreamTest


def _ids(events: list[dict[str, Any]]) -> list[int]:
    return [event["id"] for event in events]


@pytest.mark.contract
def test_a_version_says_what_its_labels_have(stream_test: StreamTest) -> None:
    served, clicked, bought = (stream_test.source(SCHEMA) for _ in range(3))
    frames = [s.frame.withWatermark("at", "1 second") for s in (served, clicked, bought)]
    made = examples(frames[0], on_late="mark").label("click", frames[1], time="at", after="10 seconds")
    made = made.label("buy", frames[2], time="at", after="60 seconds", match="last")
    made = made.horizons("10 seconds", "30 seconds").sample({"size(click) + size(buy) = 0": 0}, seed=1)
    with stream_test.query(made.stream()) as query:
        served.add((1, 7, at(0)), (2, 8, at(0)))
        # The click of the second one comes behind its window; it is bought in the end.
        clicked.add((11, 7, at(4)), (12, 8, at(11)))
        bought.add((21, 7, at(20)), (22, 7, at(40)), (23, 8, at(50)))
        for source in (served, clicked, bought):
            source.add((0, 9, at(1000)))
        query.run()
        served.add((3, 7, at(5)))
        query.run()
        rows = query.rows()
        (counts,) = [
            told["tailrace.examples"]
            for told in (p["observedMetrics"] for p in query.progresses())
            if told.get("tailrace.examples", {}).get("rows")
        ]
    columns = ("id", "user", "at", "click", "buy", "horizon", "final", "changed", "_mark", "weight")
    assert tuple(rows[0]) == columns

    def versions(of: int) -> list[tuple[Any, ...]]:
        mine = [row for row in rows if row["id"] == of and row["_mark"] is None]
        return [
            (
                r["horizon"],
                r["final"],
                r["changed"],
                [[e["id"] for e in r[name]] for name in ("click", "buy")],
            )
            for r in mine
        ]

    assert versions(1) == [
        ("10 seconds", False, None, [[11], []]),
        ("30 seconds", False, True, [[11], [21]]),
        ("1 minute", True, True, [[11], [22]]),
    ]
    # Its earlier versions are left out by the sample: they were empty.
    assert versions(2) == [("1 minute", True, True, [[], [23]])]
    (late,) = (row for row in rows if row["_mark"] == "late_left")
    assert (late["id"], late["horizon"], late["final"], late["changed"]) == (3, None, True, None)
    # Final versions alone are examples.
    ofs = {one["label"]: (one["matched"], one["events"]) for one in counts["labels"]}
    assert counts["rows"] == 2
    assert ofs == {"click": (1, 1), "buy": (2, 2)}


@pytest.mark.contract
def test_a_restart_goes_on_between_two_versions(stream_test: StreamTest) -> None:
    served, clicked = stream_test.source(SCHEMA), stream_test.source(SCHEMA)
    frames = [s.frame.withWatermark("at", "1 second") for s in (served, clicked)]
    made = examples(frames[0]).label("click", frames[1], time="at", after="60 seconds")
    with stream_test.query(made.horizons("10 seconds", emit="changes").stream()) as query:
        served.add((1, 7, at(0)), (9, 9, at(20)))
        clicked.add((11, 7, at(4)), (19, 9, at(20)))
        query.run()
        query.stop()
        query.restart()
        clicked.add((12, 7, at(30)))
        served.add((99, 9, FAR))
        clicked.add((99, 9, FAR))
        query.run()
        rows = [row for row in query.rows() if row["id"] == 1]
    found = [(row["horizon"], row["changed"], _ids(row["click"])) for row in rows]
    assert found == [("10 seconds", None, [11]), ("1 minute", True, [11, 12])]


_REFUSED: dict[str, tuple[str, Callable[[tailrace.Examples, Any], Any]]] = {
    "beyond the windows": ("horizons", lambda made, _: made.horizons("2 minutes").batch()),
    "not ascending": ("horizons", lambda made, _: made.horizons("9 seconds", "3 seconds").batch()),
    "a label's name": (
        "name",
        lambda made, events: (
            made.label("final", events, time="at", after="1 second").horizons("0 seconds").batch()
        ),
    ),
    "attribution with before": (
        "before",
        lambda made, events: (
            made.label(
                "buy", events, time="at", after="1 second", before="1 second", attribution=tailrace.linear()
            )
            .horizons("0 seconds")
            .batch()
        ),
    ),
}


@pytest.mark.parametrize("name", _REFUSED)
def test_what_does_not_go_together_is_refused(spark: SparkSession, name: str) -> None:
    events = frame(spark, (1, 7, 0))
    made = examples(frame(spark, (1, 7, 0))).label("click", events, time="at", after="1 minute")
    argument, call = _REFUSED[name]
    with pytest.raises(TailraceJoinError, match=f"`{argument}`"):
        call(made, events)


def test_horizons_are_given_once(spark: SparkSession) -> None:
    made = examples(frame(spark, (1, 7, 0)))
    with pytest.raises(TypeError, match="one call"):
        made.horizons("1 second").horizons("2 seconds")
    with pytest.raises(TypeError, match="at least"):
        made.horizons()
