"""`tailrace state rescale` and `tailrace.rescale`: another number of state partitions for a stopped query."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

import tailrace
from streams import Query, Row, Streams, groups
from tailrace.errors import TailraceStateError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    RunPython = Callable[..., subprocess.CompletedProcess[str]]

END = ([Row(900, 9, 1000)], [Row(901, 9, 1000)])


def _rows(step: int) -> tuple[list[Row], list[Row]]:
    left = [Row(step * 100 + i, None if i == 7 else i, step * 20 + i) for i in range(20)]
    return left, [Row(1000 + r.id, r.key, r.second + 3) for r in left[::2] if r.key is not None]


def _feed(streams: Streams, *queries: Query) -> None:
    for step in range(3):
        streams.add(*_rows(step))
        for query in queries:
            query.run()


def _end(streams: Streams, query: Query, other: Query) -> None:
    """The query goes on, and both end: with the same rows."""
    query.restart()
    streams.add(*END)
    for one in (query, other):
        one.run()
    assert groups(query.rows()) == groups(other.rows())


def _partitions(checkpoint: Path) -> list[int]:
    return sorted(int(d.name) for d in (checkpoint / "state" / "0").iterdir() if d.name.isdecimal())


def test_the_command_between_two_starts(spark: SparkSession, tmp_path: Path, run_python: RunPython) -> None:
    streams = Streams(spark, tmp_path)
    with streams.query(streams.join()) as query, streams.query(streams.join(), "other") as other:
        _feed(streams, query, other)
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
        _end(streams, query, other)
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


def _start(checkpoint: Path, partitions: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tailrace", "state", "rescale", str(checkpoint)]
    return subprocess.Popen(
        [*command, "--partitions", str(partitions)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _numbers(checkpoint: Path) -> set[str]:
    """The numbers of partitions that the two newest batches have."""
    batches = sorted((checkpoint / "offsets").glob("[0-9]*"), key=lambda f: int(f.name))[-2:]
    settings = [json.loads(batch.read_text().splitlines()[1])["conf"] for batch in batches]
    return {conf["spark.sql.shuffle.partitions"] for conf in settings}


@pytest.mark.campaign
def test_a_command_that_is_killed(spark: SparkSession, tmp_path: Path) -> None:
    kills = int(os.environ.get("TAILRACE_KILLS", "3"))
    rng = random.Random(int(os.environ.get("TAILRACE_SEED", "20261124")))
    longest = 0.0
    for kill in range(kills + 1):
        root = tmp_path / str(kill)
        root.mkdir()
        streams = Streams(spark, root)
        with streams.query(streams.join()) as query, streams.query(streams.join(), "other") as other:
            _feed(streams, query, other)
            query.query.stop()
            started = time.monotonic()
            process = _start(query.checkpoint, 7)
            if kill == 0:
                assert process.wait() == 0
                longest = time.monotonic() - started
            else:
                time.sleep(rng.uniform(longest / 2, longest))
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            # It goes on with either number, but between two of the writes, where Spark asks for the command.
            numbers = _numbers(query.checkpoint)
            if kill % 2 == 1 or len(numbers) > 1:
                tailrace.rescale(spark, query.checkpoint, 7)
            _end(streams, query, other)


def test_a_sink_that_has_the_batch_already(spark: SparkSession, tmp_path: Path) -> None:
    streams = Streams(spark, tmp_path)
    with streams.query(streams.join()) as query, streams.query(streams.join(), "other") as other:
        _feed(streams, query, other)
        query.query.stop()
        # As if the process had died when the sink had the batch.
        commits = (query.checkpoint / "commits").glob("[0-9]*")
        newest = max(commits, key=lambda f: int(f.name))
        newest.unlink()
        newest.with_name(f".{newest.name}.crc").unlink(missing_ok=True)
        before = len(_partitions(query.checkpoint))
        with pytest.raises(TailraceStateError, match="TAILRACE_STATE_RESCALE_CUT_OFF"):
            tailrace.rescale(spark, query.checkpoint, before + 1)
        tailrace.rescale(spark, query.checkpoint, before * 2)
        _end(streams, query, other)
