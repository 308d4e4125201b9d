"""Examples that late events amend, against brute force."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import tailrace
from example_cases import EVENT, IMPRESSION, values
from example_frames import FAR, SCHEMA, examples, frame
from oracles import Event, Impression, LabelOracle
from streams import at, second

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from tailrace.testing import StreamQuery, StreamTest

_LABELS = (
    LabelOracle("click", ("user", "item"), 0, 10, "first"),
    LabelOracle("buy", ("user",), 5, 30, "all", 2),
)
_NOTHING = "size(click) = 0 AND size(buy) = 0"

Group = tuple[tuple[int, ...], ...]


def _define(impressions: DataFrame, frames: dict[str, DataFrame], **more: Any) -> tailrace.Examples:  # noqa: ANN401
    made = tailrace.examples(impressions, on=["user", "item"], time="at", release_every="batch", **more)
    for label in _LABELS:
        options: dict[str, Any] = {"match": label.match}
        if label.max_matches:
            options["max_matches"] = label.max_matches
        made = made.label(
            label.name,
            frames[label.name],
            time="at",
            on=list(label.on),
            before=f"{label.before} seconds",
            after=f"{label.after} seconds",
            **options,
        )
    return made


class _Data:
    """Impressions, events that come in time, and some that come hours late."""

    def __init__(self, seed: int) -> None:
        draw = random.Random(seed)

        def row(number: int, at_second: int) -> tuple[int, int, int, int]:
            return number, draw.randrange(4), draw.randrange(3), at_second

        self.lefts = [Impression(*row(i, draw.randrange(100))) for i in range(60)]
        # No two events of a label have one time: the oracle knows no order by content.
        ofs = {label.name: draw.sample(range(130), 78) for label in _LABELS}
        every = {name: [Event(*row(i, s)) for i, s in enumerate(of)] for name, of in ofs.items()}
        self.early = {name: rows[:30] for name, rows in every.items()}
        self.late = [
            {name: rows[30 + 12 * k : 42 + 12 * k] for name, rows in every.items()} for k in range(4)
        ]

    def events(self, late: int) -> dict[str, list[Event]]:
        """All that have come when so many of the late parts have."""
        return {
            name: [*rows, *(e for part in self.late[:late] for e in part[name])]
            for name, rows in self.early.items()
        }

    def groups(self, late: int) -> dict[int, Group]:
        events = self.events(late)
        return {
            left.id: tuple(
                (*(i for i, _ in found), -int(cut))
                for found, cut in (label.group(left, self.lefts, events[label.name]) for label in _LABELS)
            )
            for left in self.lefts
        }


def _group(row: dict[str, Any]) -> Group:
    cuts = {"click": False, "buy": row["buy_truncated"]}
    return tuple((*(e["event"] for e in row[name]), -int(cut)) for name, cut in cuts.items())


def _amended(rows: Sequence[dict[str, Any]]) -> Counter[tuple[int, int, int, Group]]:
    assert all(row["_mark"] == "amended" and row["id"] is None for row in rows)
    return Counter((row["user"], row["item"], second(row["at"]), _group(row)) for row in rows)


def _run(
    data: _Data,
    test: StreamTest,
    define: Callable[[DataFrame, dict[str, DataFrame]], tailrace.Examples],
    part: Callable[[int, list[dict[str, Any]]], None],
) -> tuple[StreamQuery, list[dict[str, Any]]]:
    """Runs the query; `part` gets the number of late parts that have come, and the rows that they gave."""
    served = test.source(IMPRESSION)
    sources = {label.name: test.source(EVENT) for label in _LABELS}
    frames = {name: source.frame.withWatermark("at", "1 second") for name, source in sources.items()}
    with test.query(define(served.frame.withWatermark("at", "1 second"), frames).stream()) as query:
        served.add(*map(values, data.lefts))
        for name, source in sources.items():
            source.add(*map(values, data.early[name]))
        query.run()
        for source in (served, *sources.values()):
            source.add((-1, 9, 9, at(200)))
        query.run()
        first = [row for row in query.new_rows() if row["id"] != -1]
        for k, late in enumerate(data.late):
            for name, source in sources.items():
                source.add(*map(values, late[name]))
            query.run()
            part(k + 1, query.new_rows())
            if k == 1:
                query.stop()
                query.restart()
        return query, first


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_late_events_amend_the_examples_whose_columns_they_change(stream_test: StreamTest, seed: int) -> None:
    data = _Data(seed)
    seen = 0

    def part(late: int, rows: list[dict[str, Any]]) -> None:
        nonlocal seen
        before, now = data.groups(late - 1), data.groups(late)
        changed = [left for left in data.lefts if before[left.id] != now[left.id]]
        assert _amended(rows) == Counter((le.user, le.item, le.second, now[le.id]) for le in changed)
        assert 0 < len(changed) < len(data.lefts)
        seen += len(changed)

    _, first = _run(data, stream_test, lambda *frames: _define(*frames, amend_for="10 minutes"), part)
    assert {row["id"]: _group(row) for row in first} == data.groups(0)
    assert seen > 0


@pytest.mark.slow
def test_an_amended_example_is_sampled_by_its_new_labels(
    spark: SparkSession, stream_test: StreamTest
) -> None:
    data = _Data(3)
    rates = {"item = 0 AND id >= 0": 0.3, _NOTHING: 0.2, "size(buy) > 1": 0.6}
    impressions = spark.createDataFrame(list(map(values, data.lefts)), IMPRESSION)
    batches: dict[int, dict[int, float]] = {}

    def define(left: DataFrame, frames: dict[str, DataFrame]) -> tailrace.Examples:
        return _define(left, frames, amend_for="10 minutes").sample(rates, seed=5)

    def chosen(late: int) -> dict[int, float]:
        if late not in batches:
            frames = {
                name: spark.createDataFrame(list(map(values, rows)), EVENT)
                for name, rows in data.events(late).items()
            }
            rows = define(impressions, frames).batch().collect()
            assert all(row["_mark"] is None for row in rows)
            batches[late] = {row["id"]: row["weight"] for row in rows}
        return batches[late]

    left_out = 0

    def part(late: int, rows: list[dict[str, Any]]) -> None:
        nonlocal left_out
        before, now = data.groups(late - 1), data.groups(late)
        changed = [left for left in data.lefts if before[left.id] != now[left.id]]
        kept = [left for left in changed if left.id in chosen(late)]
        found = Counter((r["user"], r["item"], second(r["at"]), _group(r), r["weight"]) for r in rows)
        assert found == Counter((le.user, le.item, le.second, now[le.id], chosen(late)[le.id]) for le in kept)
        # A predicate names it.
        assert Counter(r["id"] for r in rows) == Counter(le.id for le in kept)
        left_out += len(changed) - len(kept)

    _, first = _run(data, stream_test, define, part)
    assert {row["id"]: row["weight"] for row in first} == chosen(0)
    assert left_out > 0


@pytest.mark.contract(any_spark=True)
def test_an_amended_example_has_no_features(stream_test: StreamTest) -> None:
    served, clicked, profiles = sources = [stream_test.source(SCHEMA) for _ in range(3)]
    impressions, clicks, values_ = (s.frame.withWatermark("at", "1 second") for s in sources)
    made = examples(impressions, amend_for="10 minutes").label("click", clicks, time="at", after="9 seconds")
    made = made.features("profile", values_, time="at")
    with stream_test.query(made.stream()) as query:
        served.add((1, 1, at(10)))
        profiles.add((7, 1, at(5)))
        query.run()
        for source in sources:
            source.add((-1, 9, at(100)))
        query.run()
        clicked.add((2, 1, at(12)))
        query.run()
        for source in sources:
            source.add((-1, 9, FAR))
        query.run()
        rows = [row for row in query.rows() if row["user"] == 1]
    assert [(r["id"], r["profile"] and r["profile"]["id"], r["_mark"]) for r in rows] == [
        (1, 7, None),
        (None, None, "amended"),
    ]
    assert [e["id"] for e in rows[1]["click"]] == [2]


@pytest.mark.parametrize(
    ("label", "sample", "says"),
    [
        ({"attribution": tailrace.last_touch()}, None, "by the attribution of label 'click'"),
        ({}, "profile.id > 20", "names features"),
    ],
)
def test_amendments_that_could_not_be_right_are_refused(
    spark: SparkSession, label: dict[str, Any], sample: str | None, says: str
) -> None:
    row = frame(spark, (1, 1, 1))
    made = examples(row, amend_for="10 minutes").label("click", row, time="at", after="9 seconds", **label)
    made = made.features("profile", row, time="at")
    if sample:
        made = made.sample({sample: 0.5}, seed=1)
    with pytest.raises(tailrace.TailraceJoinError, match=says) as refused:
        made.batch()
    assert refused.value.condition == "TAILRACE_OPTION_CONFLICT"
    assert refused.value.parameters["argument"] == "amend_for"


_LINE = "id long, user long, item long, price long, at timestamp"


@pytest.mark.slow
@pytest.mark.parametrize("further", ["predicate", "label"])
def test_examples_without_a_column_that_is_needed_now_are_not_amended(
    stream_test: StreamTest, further: str
) -> None:
    """Of the first example the state has neither price nor item, so its amendment would be wrong."""
    served, events = (stream_test.source(_LINE) for _ in range(2))
    frames = [source.frame.withWatermark("at", "10 seconds") for source in (served, events)]

    def define(*, more: bool) -> DataFrame:
        made = tailrace.examples(frames[0], on="user", time="at", release_every="batch", amend_for="1 hour")
        made = made.label("click", frames[1], time="at", after="10 seconds", where="price = 0")
        if more and further == "predicate":
            return made.sample({"price >= 100": 0.0}, seed=1).stream()
        if more:
            given: dict[str, Any] = {"on": ["user", "item"], "where": "price = 1", "since": at(-1)}
            made = made.label("buy", frames[1], time="at", after="10 seconds", **given)
        return made.stream()

    def go(query: StreamQuery, second: int) -> list[dict[str, Any]]:
        for source in (served, events):
            source.add((-1, 9, 9, 9, at(second)))
        query.run()
        return [row for row in query.new_rows() if row["user"] != 9]

    with stream_test.query(define(more=False)) as query:
        served.add((1, 1, 5, 200, at(0)))
        go(query, 0)
        assert [row["id"] for row in go(query, 60)] == [1]
        query.stop()
        query.restart(define(more=True))
        # Of these, the sample leaves out the second one, and has its amendment left out, too.
        served.add((2, 2, 5, 200, at(61)), (3, 3, 5, 7, at(61)))
        go(query, 62)
        assert {row["id"] for row in go(query, 120)} == ({3} if further == "predicate" else {2, 3})
        for user, second_ in ((1, 1), (2, 62), (3, 62)):
            events.add((10 + user, user, 5, 0, at(second_)), (20 + user, user, 5, 1, at(second_)))
        amended = {row["user"]: row for row in go(query, 121)}
        if further == "predicate":
            assert set(amended) == {3}
            assert (amended[3]["price"], amended[3]["weight"]) == (7, 1.0)
        else:
            assert set(amended) == {2, 3}
            assert all(row["item"] == 5 and len(row["buy"]) == 1 for row in amended.values())
