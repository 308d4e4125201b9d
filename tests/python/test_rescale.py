"""`tailrace state rescale` and `tailrace.rescale`: another number of state partitions for a stopped query."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

import tailrace
from streams import Row, Streams, groups
from tailrace.errors import TailraceStateError

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    RunPython = Callable[..., subprocess.CompletedProcess[str]]

END = ([Row(900, 9, 1000)], [Row(901, 9, 1000)])


def _rows(step: int) -> tuple[list[Row], list[Row]]:
    left = [Row(step * 100 + i, None if i == 7 else i, step * 20 + i) for i in range(20)]
    return left, [Row(1000 + r.id, r.key, r.second + 3) for r in left[::2] if r.key is not None]


def _partitions(checkpoint: Path) -> list[int]:
    return sorted(int(d.name) for d in (checkpoint / "state" / "0").iterdir() if d.name.isdecimal())


def test_the_command_between_two_starts(spark: SparkSession, tmp_path: Path, run_python: RunPython) -> None:
    streams = Streams(spark, tmp_path)
    with streams.query(streams.join()) as query, streams.query(streams.join(), "other") as other:
        for step in range(3):
            streams.add(*_rows(step))
            query.run()
            other.run()
        with pytest.raises(TailraceStateError, match="TAILRACE_STATE_RESCALE_IN_USE"):
            tailrace.rescale(spark, query.checkpoint, 7)
        query.query.stop()
        waiting = len(query.state())
        done = run_python("-m", "tailrace", "state", "rescale", str(query.checkpoint), "--partitions", "7")
        assert done.returncode == 0, done.stderr
        said = r"has 7 state partitions, and had \d+: [1-9]\d* rows, [\d.]+ MB, in [\d.]+ s. Start the query"
        assert re.search(said, done.stdout)
        assert _partitions(query.checkpoint) == list(range(7))
        assert len(query.state()) == waiting
        query.restart()
        streams.add(*END)
        query.run()
        other.run()
        assert groups(query.rows()) == groups(other.rows())
        assert [n["numShufflePartitions"] for n in query.operators()][-1] == 7


def test_a_number_that_it_has_already(spark: SparkSession, tmp_path: Path) -> None:
    streams = Streams(spark, tmp_path)
    streams.add(*_rows(0))
    with streams.query(streams.join()) as query:
        query.run()
    before = len(_partitions(query.checkpoint))
    done = tailrace.rescale(spark, query.checkpoint, before)
    assert (done.before, done.after, done.rows) == (before, before, 0)


@pytest.mark.parametrize("partitions", [0, -3])
def test_a_number_that_cannot_be(spark: SparkSession, tmp_path: Path, partitions: int) -> None:
    with pytest.raises(tailrace.TailraceError, match="whole number from 1"):
        tailrace.rescale(spark, tmp_path, partitions)


def test_a_number_of_another_type(spark: SparkSession, tmp_path: Path) -> None:
    wrong: Any = "7"
    with pytest.raises(TypeError, match="partitions"):
        tailrace.rescale(spark, tmp_path, wrong)


def test_no_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(TailraceStateError, match="TAILRACE_CHECKPOINT_NOT_FOUND"):
        tailrace.rescale(spark, tmp_path, 3)
