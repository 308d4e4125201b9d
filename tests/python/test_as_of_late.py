"""Late left rows of `tailrace.as_of`: left out or marked, and counted in any case."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, Literal

import pytest

import tailrace
from oracles import AsOfOracle, looked
from streams import Row, Streams, next_rows
from tailrace.errors import TailraceJoinError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tailrace.testing import StreamTest

_DELAY = 20
OnLate = Literal["drop", "mark"]


def _stream(streams: Streams, on_late: OnLate, **options: Any) -> DataFrame:  # noqa: ANN401
    return tailrace.as_of(
        streams.frame("left"),
        streams.frame("right"),
        on="key",
        left_time="l_ts",
        right_time="r_ts",
        on_late=on_late,
        **options,
    )


@pytest.mark.parametrize(
    ("seed", "delay", "max_age"),
    [(1, 0, None)]
    + [pytest.param(*case, marks=pytest.mark.long) for case in ((2, 7, 30), (3, 40, None), (4, 0, 5))],
)
def test_late_left_rows_are_those_of_brute_force(
    stream_test: StreamTest, seed: int, delay: int, max_age: int | None
) -> None:
    draw = random.Random(seed)
    streams = Streams(stream_test, f"{_DELAY} seconds")
    options: dict[str, Any] = {"delay": f"{delay} seconds"}
    if max_age is not None:
        options["max_age"] = f"{max_age} seconds"
    oracle = AsOfOracle(delay, max_age, _DELAY)
    marked: list[int] = []
    counted = numbers = 0
    on_late: OnLate = "mark"
    with streams.query(_stream(streams, on_late, **options)) as query:
        for step in range(14):
            # Up to 60 seconds behind the newest rows, and the watermark is 20 behind them.
            rows = []
            for _ in range(2):
                count = draw.randint(1, 6)
                seconds = [max(0, 10 * step - draw.choice([0, 5, 30, 60])) for _ in range(count)]
                rows.append([Row(numbers + i, draw.randint(1, 3), s) for i, s in enumerate(seconds)])
                numbers += count
            before = len(oracle.late_left)
            expected = oracle.step(*rows)
            late = oracle.late_left[before:]
            streams.add(*rows)
            found = next_rows(query)
            ordinary = [row for row in found if not row.get("_mark")]
            assert looked(ordinary) == expected, step
            came = [row for row in found if row.get("_mark")]
            assert sorted(row["l_id"] for row in came) == (sorted(late) if on_late == "mark" else []), step
            assert {(row["_mark"], row["features"]) for row in came} <= {("late_left", None)}
            marked += [row["l_id"] for row in came]
            if step in {5, 9}:
                counted += query.total("lateLeftRows")
                query.stop()
                oracle.spark.restart()
                on_late = "drop" if on_late == "mark" else "mark"
                query.restart(_stream(streams, on_late, **options))
        counted += query.total("lateLeftRows")
    assert counted == len(oracle.late_left) > len(marked) > 5


@pytest.mark.contract
def test_the_mark_is_the_last_column_of_streams_and_of_batch_frames(stream_test: StreamTest) -> None:
    streams = Streams(stream_test)
    result = _stream(streams, "mark", into="profile")
    assert result.columns[-2:] == ["profile", "_mark"]
    left, right = streams.batch_frames([Row(1, 7, 10), Row(2, 8, 10)], [Row(101, 7, 5)])
    batch = tailrace.as_of(left, right, on="key", left_time="l_ts", right_time="r_ts", on_late="mark")
    rows = {row.l_id: row for row in batch.collect()}
    assert {i: row.features and row.features.r_id for i, row in rows.items()} == {1: 101, 2: None}
    assert {row._mark for row in rows.values()} == {None}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"on_late": "emit"}, "`on_late` of tailrace.as_of is 'emit'.*'drop' or 'mark'"),
        ({"on_late": "mark", "into": "_mark"}, "`into` of tailrace.as_of is '_mark'"),
    ],
)
def test_what_cannot_be_marked_is_refused(
    stream_test: StreamTest, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(TailraceJoinError, match=words):
        _stream(Streams(stream_test), **options)


def test_a_left_column_of_the_marks_name_is_refused(stream_test: StreamTest) -> None:
    streams = Streams(stream_test)
    left = streams.frame("left").withColumnRenamed("l_note", "_mark")
    with pytest.raises(TailraceJoinError, match="_mark"):
        tailrace.as_of(
            left, streams.frame("right"), on="key", left_time="l_ts", right_time="r_ts", on_late="mark"
        )
