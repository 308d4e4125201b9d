"""Examples whose streams give nothing: one of them beside others, or all of them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

import tailrace
from example_frames import SCHEMA, examples, ids
from streams import at, second
from tailrace.testing import crash_at_every_step

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from tailrace.testing import StreamQuery, StreamTest


def _stalled(query: StreamQuery) -> list[str]:
    """The labels whose streams have stalled by the last micro-batch."""
    told = query.progress()["observedMetrics"]["tailrace.labels"]
    return [one["labels"] for one in told["heldBackBy"]]


@pytest.mark.contract(any_spark=True)
@pytest.mark.parametrize("policy", ["pause", "fail"])
def test_a_label_whose_stream_stalls_is_named(stream_test: StreamTest, policy: str) -> None:
    served, clicked, bought = (stream_test.source(SCHEMA) for _ in range(3))
    frames = [source.frame.withWatermark("at", "1 second") for source in (served, clicked, bought)]
    made = examples(frames[0]).label("click", frames[1], time="at", after="9 seconds", stall_after="1 second")
    for kind in ("buy", "order"):
        made = made.label(
            kind,
            frames[2],
            time="at",
            after="9 seconds",
            where=f"id {'>' if kind == 'buy' else '<'} 0",
            on_stall="fail" if policy == "fail" and kind == "buy" else "pause",
            stall_after="1 second",
        )
    with stream_test.query(made.stream()) as query:
        for source in (served, clicked, bought):
            source.add((1, 7, at(0)))
        query.run()
        named: list[str] = []

        def go_on() -> None:
            for step in range(1, 80):
                for source in (served, clicked):
                    source.add((step, 7, at(step)))
                query.run()
                named.extend(_stalled(query))
                if named:
                    break

        if policy == "fail":
            with pytest.raises(StreamingQueryException) as caught:
                go_on()
            assert isinstance(caught.value, tailrace.TailraceJoinError)
            assert "All examples wait for the stream of label buy, order" in str(caught.value)
        else:
            go_on()
            assert named == ["buy, order"]
            bought.add((2, 7, at(100)))
            query.run()
            for source in (served, clicked):
                source.add((100, 7, at(100)))
            query.run()
            assert _stalled(query) == []


@pytest.mark.slow
def test_examples_come_out_when_all_streams_are_silent(stream_test: StreamTest) -> None:
    served, clicked, profiles = (stream_test.source(SCHEMA) for _ in range(3))
    frames = [source.frame.withWatermark("at", "1 second") for source in (served, clicked, profiles)]
    made = examples(frames[0], idle_timeout="200 milliseconds").label(
        "click", frames[1], time="at", after="1 day"
    )
    made = made.features("profile", frames[2], time="at")
    with stream_test.query(made.stream()) as query:
        served.add((1, 7, at(10)), (2, 7, at(20)))
        clicked.add((5, 7, at(15)))
        profiles.add((9, 7, at(3)))
        deadline = time.monotonic() + 60
        while len(query.rows()) < 2:
            assert time.monotonic() < deadline
            query.run()
        rows = query.rows()
        assert ids(rows, "click") == {1: [5], 2: []}
        assert {row["profile"]["id"] for row in rows} == {9}
        # What comes for them later is late; what comes behind them waits as ever.
        served.add((3, 7, at(20)), (4, 7, at(21)))
        while len(query.rows()) < 3:
            assert time.monotonic() < deadline
            query.run()
        assert sorted(row["id"] for row in query.rows()) == [1, 2, 4]


@pytest.mark.contract(any_spark=True)
def test_examples_go_on_without_a_label_whose_stream_stalls(stream_test: StreamTest) -> None:
    served, clicked, bought = (stream_test.source(SCHEMA) for _ in range(3))
    frames = [source.frame.withWatermark("at", "1 second") for source in (served, clicked, bought)]
    made = (
        examples(
            frames[0], amend_for="1 day", on_stall="exclude", stall_after="1 second", release_every="batch"
        )
        .label("click", frames[1], time="at", after="9 seconds", on_stall="pause")
        .label("buy", frames[2], time="at", after="9 seconds")
    )
    with stream_test.query(made.stream()) as query:
        for source in (served, clicked, bought):
            source.add((1, 7, at(0)))
        query.run()
        for step in range(10, 100):
            for source in (served, clicked):
                source.add((step, 7, at(step)))
            query.run()
            if len(query.rows()) > 3:
                break
        emitted = {row["id"]: row for row in query.rows()}
        assert {row["_mark"] for row in emitted.values()} == {"excluded"}
        assert query.total("emittedIncomplete") == len(emitted)
        assert (emitted[10]["click"][0]["id"], emitted[10]["buy"]) == (10, [])
        # A restart goes on without it, and it amends what has been emitted when it is back.
        query.restart()
        bought.add((5, 7, at(12)), (6, 7, at(1000)))
        query.run()
        amended = [row for row in query.rows() if row["_mark"] == "amended"]
        assert [event["id"] for row in amended for event in row["buy"] if second(row["at"]) == 10] == [5]


@pytest.mark.contract
def test_features_that_stall_end_the_query(stream_test: StreamTest) -> None:
    served, clicked, profiles = (stream_test.source(SCHEMA) for _ in range(3))
    frames = [source.frame.withWatermark("at", "1 second") for source in (served, clicked, profiles)]
    made = (
        examples(frames[0], stall_after="1 second")
        .label("click", frames[1], time="at", after="9 seconds")
        .features("profile", frames[2], time="at", on_stall="fail")
    )
    with stream_test.query(made.stream()) as query:
        for source in (served, clicked, profiles):
            source.add((1, 7, at(0)))
        query.run()

        def go_on() -> None:
            for step in range(1, 80):
                for source in (served, clicked):
                    source.add((step, 7, at(step)))
                query.run()

        with pytest.raises(StreamingQueryException) as caught:
            go_on()
        assert isinstance(caught.value, tailrace.TailraceJoinError)
        assert "All examples wait for the stream of features profile" in str(caught.value)


_STEPS = 14
_AFTER = 9
_ORDERS = [(1000 + s, 7, at(s)) for s in range(2, 60, 4)]


def _excluding(root: Path, *streams: DataFrame) -> DataStreamWriter:
    frames = [stream.withWatermark("at", "1 second") for stream in streams]
    made = examples(frames[0], release_every="13 seconds").label(
        "click", frames[1], time="at", after="9 seconds"
    )
    # A stream without rows stalls with the eighth micro-batch, however fast they are.
    made = made.label(
        "buy",
        frames[2],
        time="at",
        after=f"{_AFTER} seconds",
        on_stall="exclude",
        stall_after="8 milliseconds",
    )
    return made.stream().writeStream.format("parquet").option("path", str(root / "out"))


def _crashed(spark: SparkSession, directory: Path, most: int, by: str) -> None:
    """The orders stop with the first micro-batch, and catch up with the last but one."""
    marked = 0

    def read(root: Path) -> list[Any]:
        nonlocal marked
        rows = spark.read.parquet(str(root / "out")).collect()
        for row in rows:
            served = second(row["at"].astimezone())
            bought = [event["id"] for event in row["buy"]]
            complete = [1000 + s for s in range(2, 60, 4) if served <= s <= served + _AFTER]
            # Which rows come out without the orders depends on how long a start waits for them.
            assert set(bought) <= set(complete)
            if row["_mark"] is None:
                assert bought == complete, row
            else:
                marked += 1
        return [row["id"] for row in rows]

    last = [(9000, 9, at(200))]
    nobodys = [(9000, 8, at(200))]
    batches: list[Any] = [([(0, 7, at(0))], [(0, 7, at(0))], _ORDERS[:1])]
    batches += [([(s, 7, at(4 * s))], [(s, 7, at(4 * s))], []) for s in range(1, _STEPS)]
    batches += [([(_STEPS, 7, at(4 * _STEPS))], [], _ORDERS[1:]), (last, nobodys, nobodys)]
    crash_at_every_step(
        spark,
        directory,
        _excluding,
        [SCHEMA] * 3,
        batches,
        read,
        most=most,
        by=by,  # type: ignore[arg-type]
    )
    assert marked > 0


@pytest.mark.slow
def test_a_row_without_a_mark_is_complete_wherever_the_query_fails(
    spark: SparkSession, tmp_path: Path
) -> None:
    _crashed(spark, tmp_path, 3, "fault")


@pytest.mark.campaign
@pytest.mark.classic("a killed process has a classic session")
def test_a_row_without_a_mark_is_complete_wherever_the_process_is_killed(
    spark: SparkSession, tmp_path: Path
) -> None:
    _crashed(spark, tmp_path, 6, "kill")
