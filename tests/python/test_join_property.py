"""Random streams against the oracle: orders, lags, batch cuts, windows, restarts, numbers of partitions."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tailrace
from oracles import JoinOracle
from streams import Row, Streams, groups, next_rows, pairs
from tailrace.testing import StreamTest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

# Left rows, right rows, and whether the query is restarted before them: with how many state partitions, or
# with as many as before: 0.
_Step = tuple[list[Row], list[Row], int | None]

_rows = st.lists(
    st.tuples(st.one_of(st.none(), st.integers(0, 2)), st.integers(0, 60), st.integers(0, 30)), max_size=6
)
_restarts = st.sampled_from([None, None, None, 0, 1, 2, 3, 5])
_steps = st.lists(st.tuples(_rows, _rows, _restarts), min_size=2, max_size=5)
_windows = st.tuples(st.sampled_from([0, 3, 40]), st.sampled_from([0, 7, 40]))


def _materialise(steps: Sequence[tuple[Any, Any, int | None]]) -> list[_Step]:
    """Gives ids to rows, and moves time on from step to step: some rows are late, some windows close."""
    made = []
    number = 0
    for i, (left, right, restart) in enumerate(steps):
        sides = []
        for rows in (left, right):
            side = []
            for key, second, lag in rows:
                number += 1
                side.append(Row(number, key, i * 40 + second - lag, f"{number}"))
            sides.append(side)
        made.append((sides[0], sides[1], restart))
    # The last step closes every window.
    made.append(([Row(9001, 9, 5000)], [Row(9002, 9, 5000)], None))
    return made


def _check(spark: SparkSession, how: str, steps: list[_Step], window: tuple[int, int]) -> None:
    before, after = window
    oracle = JoinOracle(before, after, delay=10)
    view = groups if how == "left" else pairs
    with tempfile.TemporaryDirectory() as folder, StreamTest(spark, folder, "12:00") as test:
        streams = Streams(test)
        result = streams.join(how=how, before=f"{before} seconds", after=f"{after} seconds")
        with streams.query(result) as query:
            for left, right, restart in steps:
                if restart is not None:
                    query.stop()
                    # Before the first batch there is nothing to rescale.
                    if restart > 0 and any((query.checkpoint / "commits").glob("[0-9]*")):
                        assert tailrace.rescale(spark, query.checkpoint, restart).after == restart
                    query.restart()
                    oracle.spark.restart()
                streams.add(left, right)
                expected = oracle.step(left, right)[0 if how == "left" else 1]
                assert view(next_rows(query)) == sorted(expected)


_few = settings(deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, max_examples=2)


@pytest.mark.parametrize("how", ["left", "inner"])
@_few
@given(steps=_steps, window=_windows)
def test_every_step_gives_what_the_oracle_says(
    spark: SparkSession, how: str, steps: list[tuple[Any, Any, int | None]], window: tuple[int, int]
) -> None:
    _check(spark, how, _materialise(steps), window)


@pytest.mark.parametrize(
    "how",
    [pytest.param("left", marks=pytest.mark.campaign), pytest.param("inner", marks=pytest.mark.long)],
)
@settings(_few, max_examples=12)
@given(steps=_steps, window=_windows)
def test_every_step_of_many_streams_gives_what_the_oracle_says(
    spark: SparkSession, how: str, steps: list[tuple[Any, Any, int | None]], window: tuple[int, int]
) -> None:
    _check(spark, how, _materialise(steps), window)


# 200 tasks a batch take long, and the operator doesn't tell the two apart there.
@pytest.mark.parametrize(
    ("how", "partitions"),
    [
        ("left", "1"),
        ("left", "7"),
        pytest.param("left", "200", marks=pytest.mark.campaign),
        ("inner", "1"),
        ("inner", "7"),
    ],
)
def test_shuffle_partitions_change_nothing(spark: SparkSession, how: str, partitions: str) -> None:
    steps = [
        (
            [Row(i * 10 + k, k, i * 40 + 3 * k) for k in range(8)],
            [Row(i * 10 + k, k, i * 40 + 5 * k) for k in range(8)],
            0 if i == 1 else None,
        )
        for i in range(1 if partitions == "200" else 2)
    ]
    steps.append(([Row(901, 9, 5000)], [Row(902, 9, 5000)], None))
    old = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", partitions)
    try:
        _check(spark, how, steps, (5, 30))
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", old or "2")


@pytest.mark.parametrize("how", ["left", "inner"])
def test_a_buffer_of_one_row_changes_nothing(spark: SparkSession, how: str) -> None:
    spark.conf.set("spark.tailrace.state.batchBufferBytes", "1")
    try:
        rows = [Row(i, i % 2, i) for i in range(6)]
        _check(spark, how, [(rows, rows, None), ([Row(901, 9, 5000)], [Row(902, 9, 5000)], 0)], (5, 30))
    finally:
        spark.conf.unset("spark.tailrace.state.batchBufferBytes")
