"""Rows that leave the state when it is decided what they match: `release="decided"`, `one_to_one`."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

import tailrace
from oracles import JoinOracle
from streams import Row, Streams, groups, join, next_rows, pairs
from tailrace.errors import TailraceJoinError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tailrace.testing import StreamQuery, StreamTest

_Step = tuple[list[Row], list[Row]]

END: _Step = ([Row(9001, 99, 5000)], [Row(9002, 99, 5000)])
RELEASED = {"match": "first", "release": "decided", "release_every": "batch"}


@pytest.fixture
def streams(stream_test: StreamTest) -> Streams:
    return Streams(stream_test)


def _steps(rng: random.Random, keys: int) -> list[_Step]:
    """Rows up to 9 seconds out of order, none behind the watermark. Few have a key without a match."""
    numbers = iter(range(1, 9000))

    def row(step: int) -> Row:
        return Row(next(numbers), rng.randrange(keys), step * 20 + rng.randrange(20) - rng.randrange(10))

    return [([row(i) for _ in range(12)], [row(i) for _ in range(12)]) for i in range(5)]


def _unique(steps: list[_Step], rng: random.Random) -> list[_Step]:
    """The same rows with keys of which each has one left and one right row, in any order of arrival."""
    made = []
    keys = [list(range(60)), list(range(60))]
    for step in steps:
        sides = []
        for rows, free in zip(step, keys, strict=True):
            near = [free.pop(rng.randrange(min(20, len(free)))) for _ in rows]
            sides.append([row._replace(key=key) for row, key in zip(rows, near, strict=True)])
        made.append((sides[0], sides[1]))
    return made


def _first(labels: list[int], right: dict[int, Row]) -> list[int]:
    return sorted(labels, key=lambda i: (right[i].second, i))[:1]


def _restart(spark: SparkSession, query: StreamQuery, i: int) -> None:
    """Before the third step with other partitions, and before the fifth."""
    if i in {2, 4}:
        query.stop()
        if i == 2:
            assert tailrace.rescale(spark, query.checkpoint, 5).after == 5
        query.restart()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_first_matches_come_out_once_whatever_restarts_and_partitions(
    spark: SparkSession, streams: Streams, seed: int
) -> None:
    rng = random.Random(seed)
    steps = _steps(rng, keys=8)
    oracle = JoinOracle(0, 60, delay=10)
    right = {row.id: row for _, rows in steps for row in rows}
    expected: list[tuple[int, list[int]]] = []
    early = 0
    with streams.query(streams.join(after="60 seconds", **RELEASED)) as query:
        got: list[tuple[int, list[int]]] = []
        for i, step in enumerate([*steps, END]):
            _restart(spark, query, i)
            streams.add(*step)
            closed, _ = oracle.step(*step)
            expected += [(left, _first(labels, right)) for left, labels in closed]
            got += groups(next_rows(query))
            early += len(got) - len(expected)
        assert not oracle.late
        assert sorted(got) == sorted(expected)
        assert early > 0
        assert {row["side"] for row in query.state()} <= {"left", "right"}
        assert len(query.state()) == 2


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_pairs_come_out_once_whatever_restarts_and_partitions(
    spark: SparkSession, streams: Streams, seed: int
) -> None:
    rng = random.Random(seed)
    steps = _unique(_steps(rng, keys=1), rng)
    oracle = JoinOracle(60, 60, delay=10)
    with streams.query(
        streams.join(how="inner", before="60 seconds", after="60 seconds", one_to_one=True)
    ) as query:
        oracle_pairs: list[tuple[int, int]] = []
        for i, step in enumerate([*steps, END]):
            _restart(spark, query, i)
            streams.add(*step)
            _, expected = oracle.step(*step)
            oracle_pairs += expected
            assert pairs(next_rows(query)) == expected
            if i == 3:
                # None of the rows that have been paired is there.
                waiting = {row["left"]["l_id"] for row in query.state() if row["side"] == "left"}
                came = {row.id for lefts, _ in steps[:4] for row in lefts}
                assert waiting <= came - {left for left, _ in oracle_pairs}
        assert len(oracle_pairs) > 20
        assert query.total("matchesDropped") == 0


def test_batch_data_frames_give_the_rows_of_the_stream(streams: Streams) -> None:
    rng = random.Random(3)
    steps = _steps(rng, keys=8)
    left, right = ([row for step in steps for row in step[side]] for side in (0, 1))
    frames = streams.batch_frames(left, right)
    by_options: dict[str, Any] = {}
    for release in ("closed", "decided"):
        out = join(*frames, after="60 seconds", match="first", release=release).collect()
        by_options[release] = groups(row.asDict(recursive=True) for row in out)
    assert by_options["closed"] == by_options["decided"]
    one = join(*frames, how="inner", after="60 seconds", one_to_one=True).collect()
    with streams.query(streams.join(how="inner", after="60 seconds", one_to_one=True)) as query:
        streams.add(left, right)
        assert pairs(next_rows(query)) == pairs(row.asDict() for row in one)
    assert len({row["l_id"] for row in one}) == len({row["r_id"] for row in one}) == len(one)


@pytest.mark.parametrize(
    ("options", "condition", "words"),
    [
        ({"release": "soon"}, "TAILRACE_OPTION_INVALID", "'closed' or 'decided'"),
        ({"release": "decided"}, "TAILRACE_OPTION_NEEDS", "match='first'"),
        (RELEASED | {"before": "1 second"}, "TAILRACE_OPTION_NEEDS", "before='0 seconds'"),
        (RELEASED | {"early": "1 second"}, "TAILRACE_OPTION_CONFLICT", "`early`"),
        ({"how": "inner", "release": "decided"}, "TAILRACE_JOIN_OPTION_CONFLICT", "release"),
        ({"one_to_one": True}, "TAILRACE_OPTION_NEEDS", "how='inner'"),
        ({"how": "inner", "one_to_one": True, "salted_keys": [1]}, "TAILRACE_OPTION_CONFLICT", "salted_keys"),
    ],
)
def test_what_cannot_be_decided_is_refused(
    streams: Streams, options: dict[str, Any], condition: str, words: str
) -> None:
    with pytest.raises(TailraceJoinError, match=words) as raised:
        streams.join(**options)
    assert raised.value.condition == condition


@pytest.mark.contract
@pytest.mark.parametrize(
    ("options", "told"),
    [
        (RELEASED, "`release` was 'decided' and is now 'closed'"),
        ({"how": "inner", "one_to_one": True}, "`one_to_one` was 'True' and is now 'False'"),
    ],
)
def test_a_checkpoint_is_bound_to_it(streams: Streams, options: dict[str, Any], told: str) -> None:
    with streams.query(streams.join(**options)) as query:
        streams.add([Row(1, 1, 100)], [Row(2, 2, 100)])
        query.run()
    without = {k: v for k, v in options.items() if f"`{k}`" not in told}
    with streams.query(streams.join(**without)) as query:
        streams.add([Row(3, 1, 100)], [Row(4, 2, 100)])
        with pytest.raises(Exception, match=told):
            query.run()
