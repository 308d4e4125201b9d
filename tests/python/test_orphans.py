"""Right rows that no left row has, against brute force: streams, batch, restarts, rescaling, erasing."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

import tailrace
from example_cases import EVENT, IMPRESSION, Case, random_case, streamed, values
from streams import Row, Streams, at
from tailrace.errors import TailraceJoinError
from tailrace.testing import StreamTest, assert_stream_equals_batch, crash_at_every_step

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from tailrace.testing import StreamQuery
    from tailrace.testing.streams import Source

_SERVED = "id long, user long, served_at timestamp"
_CLICKED = "click long, user long, kind string, clicked_at timestamp"

# Its label, its event and the reason.
Orphan = tuple[str, int, str]


def _expected(case: Case) -> Counter[Orphan]:
    common = set.intersection(*(set(label.on) for label in case.labels))
    found: Counter[Orphan] = Counter()
    for label in case.labels:
        for event in case.events[label.name]:
            if any(getattr(event, key) is None for key in common):
                found[label.name, event.id, "null_right"] += 1
            elif not any(label.matches(left, event) for left in case.lefts):
                found[label.name, event.id, "unmatched_right"] += 1
    return found


_KEYS = ("user", "item")


def _keys_of(case: Case, label: str, number: int) -> dict[str, Any]:
    """The label's keys of an event. Those that other labels don't have are there if none of them is null."""
    (on,) = (one.on for one in case.labels if one.name == label)
    (event,) = (one for one in case.events[label] if one.id == number)
    common = set.intersection(*(set(one.on) for one in case.labels))
    further = {key for key in on if key not in common}
    if any(getattr(event, key) is None for key in further):
        on = tuple(set(on) - further)
    return {key: getattr(event, key) if key in on else None for key in _KEYS}


def _found(case: Case, rows: Iterable[dict[str, Any]]) -> Counter[Orphan]:
    found: Counter[Orphan] = Counter()
    for row in rows:
        assert row["id"] is None
        assert row["at"] is None
        events = [(label.name, e["event"]) for label in case.labels for e in row[label.name]]
        assert len(events) == 1
        if events[0][1] < 9000:
            assert {key: row[key] for key in _KEYS} == _keys_of(case, *events[0])
            found[*events[0], row["_mark"]] += 1
    return found


@pytest.mark.contract(any_spark=True)
# In the last two, a label has a key that others don't have.
@pytest.mark.parametrize("seed", [1, 11, 26])
def test_orphans_of_random_examples_are_those_of_brute_force(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    case = replace(random_case(seed), options={"orphans": True})
    with StreamTest(spark, tmp_path, "12:00") as test:
        rows = streamed(case, test, random.Random(seed))
    impressions = spark.createDataFrame(list(map(values, case.lefts)), IMPRESSION)
    frames = {
        name: spark.createDataFrame(list(map(values, events)), EVENT) for name, events in case.events.items()
    }
    batch = [row.asDict(recursive=True) for row in case.define(impressions, frames).batch().collect()]
    expected, groups = _expected(case), case.expected()
    assert expected
    for label, all_rows in (("batch", batch), ("stream", rows)):
        assert _found(case, (row for row in all_rows if row["_mark"])) == expected, (label, case.labels)
        found = case.found([row for row in all_rows if row["_mark"] is None and row["id"] < 9000])
        assert found == {left.id: groups[left.id] for left in case.lefts}, label


def _kinds(impressions: DataFrame, events: DataFrame, **options: Any) -> tailrace.Examples:  # noqa: ANN401
    """Two windows of one stream, and a label of some of its rows."""
    named = tailrace.examples(
        impressions.withWatermark("served_at", "5 seconds"),
        on="user",
        time="served_at",
        orphans=True,
        **options,
    )
    watched = events.withWatermark("clicked_at", "5 seconds")
    return (
        named.label("soon", watched, time="clicked_at", after="10 seconds", where="kind <> 'buy'")
        .label("day", watched, time="clicked_at", after="60 seconds", where="kind <> 'buy'")
        .label(
            "buy", watched, time="clicked_at", after="10 seconds", before="5 seconds", where="kind = 'buy'"
        )
    )


_IMPRESSIONS: list[tuple[Any, ...]] = [(1, 7, at(0)), (2, 8, at(30)), (3, None, at(31))]
_EVENTS: list[tuple[Any, ...]] = [
    (11, 7, "click", at(5)),
    (12, 7, "click", at(40)),  # in the longer window only: not an orphan
    (13, 7, "click", at(61)),
    (14, 7, "buy", at(12)),
    (15, 8, "buy", at(26)),
    (16, 9, "click", at(32)),
    (17, None, "buy", at(33)),
    (18, None, "other", None),  # an event of both windows, without a time
]
_ORPHANS = [
    ([13], [13], [], "unmatched_right"),
    ([], [], [14], "unmatched_right"),
    ([16], [16], [], "unmatched_right"),
    ([], [], [17], "null_right"),
    ([18], [18], [], "null_right"),
]


def _ids(row: dict[str, Any]) -> tuple[Any, ...]:
    return *([e["click"] for e in row[name]] for name in ("soon", "day", "buy")), row["_mark"]


def _run_all(query: StreamQuery, served: Source, clicked: Source) -> None:
    """Runs the impressions and events, and then rows far after all of them."""
    served.add(*_IMPRESSIONS)
    clicked.add(*_EVENTS)
    query.run()
    served.add((99, 99, at(5000)))
    clicked.add((99, 99, "click", at(5000)))
    query.run()


@pytest.mark.contract
def test_an_event_of_several_labels_is_an_orphan_if_none_has_it(stream_test: StreamTest) -> None:
    served, clicked = stream_test.source(_SERVED), stream_test.source(_CLICKED)
    with stream_test.query(_kinds(served.frame, clicked.frame).stream()) as query:
        _run_all(query, served, clicked)
        rows = query.rows()
        told: Counter[tuple[str, str]] = Counter()
        for progress in query.progresses():
            for one in progress["observedMetrics"]["tailrace.examples"]["orphans"]:
                told[one["label"], one["reason"]] += one["rows"]
        assert query.total("unmatchedRightRows") == 3
    assert sorted(_ids(row) for row in rows if row["_mark"]) == sorted(_ORPHANS)
    assert {row["user"] for row in rows if row["_mark"]} == {7, 9, None}
    assert [_ids(row) for row in rows if row["id"] == 1] == [([11], [11, 12], [], None)]
    assert +told == {
        ("soon", "unmatched_right"): 2,
        ("day", "unmatched_right"): 2,
        ("buy", "unmatched_right"): 1,
        ("soon", "null_right"): 1,
        ("day", "null_right"): 1,
        ("buy", "null_right"): 1,
    }


def _time_of(row: Any) -> Any:  # noqa: ANN401
    return row[3] or at(0)


@pytest.mark.contract(any_spark=True)
def test_streams_give_the_orphans_of_batch_dataframes(spark: SparkSession, tmp_path: Path) -> None:
    assert_stream_equals_batch(
        spark,
        tmp_path,
        lambda served, clicked: (
            _kinds(served, clicked).stream() if served.isStreaming else _kinds(served, clicked).batch()
        ),
        (_SERVED, _IMPRESSIONS),
        (_CLICKED, sorted(_EVENTS, key=_time_of)),
    )


def test_a_ratio_neither_counts_an_orphan_nor_leaves_it_out(stream_test: StreamTest) -> None:
    served = stream_test.source("user long, served timestamp")
    clicks = stream_test.source("user long, clicked timestamp")
    examples = (
        tailrace.examples(
            served.frame.withWatermark("served", "10 seconds"), on="user", time="served", orphans=True
        )
        .label(
            "click", clicks.frame.withWatermark("clicked", "10 seconds"), time="clicked", after="30 seconds"
        )
        .sample(ratio={"click": 1}, seed=7)
    )
    with stream_test.query(examples.stream()) as query:
        for start in (0, 100, 200):
            served.add(*((user, at(start + user)) for user in range(40)))
            clicks.add(*((user, at(start + user + 3)) for user in [*range(5), *range(100, 130)]))
            query.run()
        served.add((500, at(9000)))
        clicks.add((501, at(9000)))
        query.run()
        orphans = [row for row in query.rows() if row["_mark"] == "unmatched_right"]
        assert len(orphans) == 3 * 30
        assert {row["weight"] for row in orphans} == {None}
        assert query.total("balancedPositives") == 3 * 5
        assert query.total("balancedNegatives") == 3 * 35


def test_no_sample_leaves_an_orphan_out(stream_test: StreamTest) -> None:
    served, clicked = stream_test.source(_SERVED), stream_test.source(_CLICKED)
    sampled = _kinds(served.frame, clicked.frame).sample({"true": 0.0}, seed=7)
    with stream_test.query(sampled.stream()) as query:
        _run_all(query, served, clicked)
        rows = query.rows()
    # The sample leaves out all impressions, and none of their events is an orphan.
    assert sorted(_ids(row) for row in rows) == sorted(_ORPHANS)
    assert {row["weight"] for row in rows} == {None}


def _fed(streams: Streams, step: int) -> None:
    """Each left row has a match in its window and one after the next step; each other key has none."""
    left = [Row(100 * step + key, key, 20 * step) for key in range(8)]
    right = [Row(1000 + 100 * step + key, key, 20 * step + 15) for key in range(0, 8, 2)]
    right += [Row(2000 + 100 * step + key, 50 + key, 20 * step + 15) for key in range(8)]
    streams.add(left, right)


def _end(streams: Streams) -> None:
    streams.add([Row(9000, 90, 9000)], [Row(9001, 91, 9000)])


def _orphans(rows: Iterable[dict[str, Any]]) -> list[int]:
    marked = [row for row in rows if row["_mark"] is not None]
    assert all(row["_mark"] == "unmatched_right" and row["l_id"] is None for row in marked)
    return sorted(m["r_id"] for row in marked for m in row["labels"])


@pytest.mark.slow
@pytest.mark.parametrize("partitions", [1, 5])
def test_notes_travel_with_their_rows_when_partitions_change(
    stream_test: StreamTest, partitions: int
) -> None:
    streams = Streams(stream_test)
    with streams.query(streams.join(orphans=True, before="10 seconds")) as query:
        for step in range(8):
            if step in (3, 5):
                query.stop()
                tailrace.rescale(stream_test.spark, query.checkpoint, partitions if step == 3 else 3)
                query.restart()
            _fed(streams, step)
            query.run()
        _end(streams)
        query.run()
        rows = query.rows()
    assert _orphans(rows) == [2000 + 100 * step + key for step in range(8) for key in range(8)]
    assert sum(len(row["labels"]) for row in rows if row["_mark"] is None) >= 8 * 4


def test_erasing_takes_the_notes_of_erased_rows(stream_test: StreamTest) -> None:
    def keys(checkpoint: Path) -> list[str]:
        state = stream_test.spark.read.format("statestore").load(str(checkpoint))
        notes = state.where("key.tailrace_store = 'matched-right'").selectExpr("hex(key.key) AS k")
        return [row["k"] for row in notes.collect()]

    streams = Streams(stream_test)
    with streams.query(streams.join(orphans=True)) as query:
        for step in range(4):
            _fed(streams, step)
            query.run()
        query.stop()
        before = keys(query.checkpoint)
        tailrace.erase(stream_test.spark, query.checkpoint, "key = 2")
        erased = set(before) - set(keys(query.checkpoint))
        assert len(erased) == 1
        query.restart()
        _end(streams)
        query.run()
        assert _orphans(query.rows()) == [2000 + 100 * step + key for step in range(4) for key in range(8)]


def test_an_export_and_an_import_are_refused(stream_test: StreamTest, tmp_path: Path) -> None:
    streams = Streams(stream_test)
    result = streams.join(orphans=True)
    with streams.query(result) as query:
        _fed(streams, 0)
        query.run()
        query.stop()
        with pytest.raises(tailrace.TailraceError, match="orphans") as refused:
            tailrace.export_state(stream_test.spark, query.checkpoint, tmp_path / "export")
        assert refused.value.condition == "TAILRACE_STATE_EXCHANGE_UNSUPPORTED"
    left, right = streams.batch_frames([Row(1, 1, 1)], [Row(2, 1, 2)])
    with pytest.raises(tailrace.TailraceError, match="orphans"):
        tailrace.import_state(result, tmp_path / "made", left=left, right=right)


@pytest.mark.contract
def test_batch_dataframes_have_a_row_for_each_reason(stream_test: StreamTest) -> None:
    streams = Streams(stream_test)
    left, right = streams.batch_frames(
        [Row(1, 1, 0), Row(2, None, 0)], [Row(11, 1, 30), Row(12, 1, 31), Row(13, 2, 5), Row(14, None, 5)]
    )
    joined = tailrace.join(
        left, right, on="key", left_time="l_ts", right_time="r_ts", after="30 seconds", orphans=True
    )
    rows = [row.asDict(recursive=True) for row in joined.collect()]
    assert sorted(
        (row["l_id"] or 0, row["key"] or 0, [m["r_id"] for m in row["labels"]], row["_mark"]) for row in rows
    ) == [
        (0, 0, [14], "null_right"),
        (0, 1, [12], "unmatched_right"),
        (0, 2, [13], "unmatched_right"),
        (1, 1, [11], None),
        (2, 0, [], None),
    ]


def test_a_wrong_combination_is_refused(stream_test: StreamTest) -> None:
    streams = Streams(stream_test)
    with pytest.raises(TailraceJoinError, match="orphans") as refused:
        streams.join(orphans=True, idle_timeout="1 minute")
    assert refused.value.condition == "TAILRACE_OPTION_CONFLICT"
    with pytest.raises(TypeError, match="orphans"):
        streams.join(orphans=1)


def _pipeline(root: Path, served: DataFrame, clicked: DataFrame) -> DataStreamWriter:
    rows = _kinds(served, clicked, release_every="batch").stream()
    return rows.writeStream.format("parquet").option("path", str(root / "out"))


def _crashed(spark: SparkSession, directory: Path, most: int, by: str) -> None:
    def read(root: Path) -> list[Any]:
        return list(spark.read.parquet(str(root / "out")).collect())

    batches = [
        (_IMPRESSIONS, _EVENTS[:2]),
        ([(4, 9, at(50))], _EVENTS[2:]),
        ([(5, 9, at(120))], [(21, 8, "click", at(100)), (22, 9, "buy", at(125))]),
    ]
    steps = crash_at_every_step(
        spark,
        directory,
        _pipeline,
        [_SERVED, _CLICKED],
        batches,
        read,
        most=most,
        by=by,  # type: ignore[arg-type]
    )
    assert len(steps) == most


@pytest.mark.slow
def test_orphans_are_emitted_once_wherever_the_query_fails(spark: SparkSession, tmp_path: Path) -> None:
    _crashed(spark, tmp_path, 6, "fault")


@pytest.mark.campaign
@pytest.mark.classic("a killed process has a classic session")
def test_orphans_are_emitted_once_wherever_the_process_is_killed(spark: SparkSession, tmp_path: Path) -> None:
    _crashed(spark, tmp_path, 8, "kill")
