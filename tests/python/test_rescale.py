"""`tailrace state rescale` and `tailrace.rescale`: another number of state partitions for a stopped query."""

from __future__ import annotations

import json
import os
import random
import re
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException

import state_command
import tailrace
from file_queries import FileQuery
from streams import Row, Streams, groups, join
from tailrace.errors import TailraceStateError
from tailrace.testing import StreamTest
from tailrace.testing.kills import kill_group

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Generator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from tailrace.testing import StreamQuery

    RunPython = Callable[..., subprocess.CompletedProcess[str]]

END = ([Row(900, 9, 1000)], [Row(901, 9, 1000)])


def _rows(step: int) -> tuple[list[Row], list[Row]]:
    left = [Row(step * 100 + i, None if i == 7 else i, step * 20 + i) for i in range(20)]
    return left, [Row(1000 + r.id, r.key, r.second + 3) for r in left[::2] if r.key is not None]


def _step(streams: Streams, rows: tuple[list[Row], list[Row]], *queries: StreamQuery | FileQuery) -> None:
    streams.add(*rows)
    streams.test.flush()
    for query in queries:
        query.run()


def _feed(streams: Streams, *queries: StreamQuery) -> None:
    for step in range(3):
        _step(streams, _rows(step), *queries)


def _end(streams: Streams, query: StreamQuery, other: StreamQuery) -> None:
    """The query goes on, and both end: with the same rows."""
    query.restart()
    _step(streams, END, query, other)
    assert groups(query.rows()) == groups(other.rows())


def _partitions(checkpoint: Path) -> list[int]:
    return sorted(int(d.name) for d in (checkpoint / "state" / "0").iterdir() if d.name.isdecimal())


def _content(folder: Path) -> dict[str, bytes]:
    return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


@pytest.mark.campaign
def test_the_command_between_two_starts(
    spark: SparkSession, stream_test: StreamTest, run_python: RunPython
) -> None:
    streams = Streams(stream_test)
    with streams.query(streams.join()) as query, streams.query(streams.join(), "other") as other:
        _feed(streams, query, other)
        with pytest.raises(TailraceStateError, match="TAILRACE_STATE_RESCALE_IN_USE"):
            tailrace.rescale(spark, query.checkpoint, 7)
        query.stop()
        waiting = len(query.state())
        files = _content(query.checkpoint)
        planned = tailrace.rescale(spark, query.checkpoint, 7, dry_run=True)
        assert _content(query.checkpoint) == files
        assert [(side.side, side.rows) for side in planned.sides] == [
            (side, sum(row["side"] == side for row in query.state())) for side in ("left", "right")
        ]
        done = run_python("-m", "tailrace", "state", "rescale", str(query.checkpoint), "--partitions", "7")
        assert done.returncode == 0, done.stderr
        said = rf"has 7 state partitions, and had \d+: {planned.rows} rows, [\d.]+ MB, in [\d.]+ s. Start"
        assert re.search(said, done.stdout)
        assert _partitions(query.checkpoint) == list(range(7))
        assert len(query.state()) == waiting
        _end(streams, query, other)
        assert query.progress()["stateOperators"][0]["numShufflePartitions"] == 7


@pytest.mark.campaign
def test_a_new_checkpoint_and_the_old_one_go_on_to_the_same_rows(
    spark: SparkSession, stream_test: StreamTest, tmp_path: Path
) -> None:
    partitions = 7
    streams, new = Streams(stream_test), tmp_path / "new"
    with streams.query(streams.join()) as query, streams.query(streams.join(), "other") as other:
        _feed(streams, query, other)
        query.stop()
        before = _content(query.checkpoint)
        assert tailrace.rescale(spark, query.checkpoint, partitions, to=new, dry_run=True).dry_run
        assert not new.exists()
        assert tailrace.rescale(spark, query.checkpoint, partitions, to=new).after == partitions
        assert _content(query.checkpoint) == before
        with pytest.raises(TailraceStateError, match="TAILRACE_STATE_EXCHANGE_EXISTS"):
            tailrace.rescale(spark, query.checkpoint, partitions, to=new)
        assert [path.name for path in tmp_path.iterdir() if "import" in path.name] == []
        query.checkpoint.rename(tmp_path / "old")
        new.rename(query.checkpoint)
        _end(streams, query, other)
        assert _partitions(query.checkpoint) == list(range(partitions))


@pytest.mark.contract
def test_a_number_that_it_has_already(spark: SparkSession, stream_test: StreamTest) -> None:
    streams = Streams(stream_test)
    streams.add(*_rows(0))
    with streams.query(streams.join()) as query:
        query.run()
    before = len(_partitions(query.checkpoint))
    done = tailrace.rescale(spark, query.checkpoint, before)
    assert (done.before, done.after, done.rows) == (before, before, 0)


@pytest.mark.long
def test_a_query_that_runs_elsewhere_and_has_nothing_to_do_goes_on(
    spark: SparkSession, stream_test: StreamTest, tmp_path: Path
) -> None:
    streams = Streams(stream_test)
    with streams.query(streams.join()) as query, streams.query(streams.join(), "other") as other:
        _feed(streams, query, other)
        before = _partitions(query.checkpoint)
        # By another path, as if from another process: the session doesn't see that its query is the same.
        (tmp_path / "elsewhere").symlink_to(query.checkpoint)
        tailrace.rescale(spark, tmp_path / "elsewhere", 7)
        _step(streams, _rows(3), query, other)
        query.restart()
        _step(streams, _rows(4), query, other)
        _end(streams, query, other)
        assert query.progress()["stateOperators"][0]["numShufflePartitions"] == len(before)
        assert _partitions(query.checkpoint) == before


@pytest.mark.slow
def test_a_struct_among_the_keys(spark: SparkSession, stream_test: StreamTest) -> None:
    streams = Streams(stream_test)

    def keyed(side: str) -> DataFrame:
        struct = "named_struct('x', key, 'y', key % 3, 'z', 1) AS s"
        return streams.frame(side).selectExpr("*", struct, "CAST(key % 2 AS int) AS w")

    result = join(keyed("left"), keyed("right").drop("key"), on=["s", "w"])
    with streams.query(result) as query, streams.query(result, "other") as other:
        _feed(streams, query, other)
        for partitions in (1, 4):
            query.stop()
            tailrace.rescale(spark, query.checkpoint, partitions)
            query.restart()
            _step(streams, _rows(2 + partitions), query, other)
        _end(streams, query, other)


@pytest.fixture(params=[1, 2])
def ids(spark: SparkSession, request: pytest.FixtureRequest) -> Generator[int]:
    """Both of Spark's checkpoint formats."""
    setting = "spark.sql.streaming.stateStore.checkpointFormatVersion"
    spark.conf.set(setting, request.param)
    yield request.param
    spark.conf.unset(setting)


@pytest.mark.campaign
def test_a_batch_that_runs_elsewhere_meanwhile(
    spark: SparkSession, stream_test: StreamTest, tmp_path: Path, ids: int
) -> None:
    """A batch that was cut off runs again elsewhere, with the old number, while a rescaling turns."""
    refusal = {1: "TAILRACE_STATE_FILE_MISSING", 2: "TAILRACE_STATE_PARTITIONS"}[ids]
    streams = Streams(stream_test)
    result = streams.join(release_every="batch")
    with streams.query(result) as query, streams.query(result, "other") as other:
        _feed(streams, query, other)
        old = _number(query.checkpoint)
        query.stop()
        newest = max(int(f.name) for f in (query.checkpoint / "commits").glob("[0-9]*"))
        # What the batch has written comes when the rescaling has turned.
        written = [query.checkpoint / "commits" / str(newest)]
        written += (query.checkpoint / "state").rglob(f"{newest + 1}[._]*")
        assert len(written) > old
        for number, file in enumerate(written):
            file.rename(tmp_path / str(number))
        tailrace.rescale(spark, query.checkpoint, 2 * old)
        for number, file in enumerate(written):
            (tmp_path / str(number)).rename(file)
        query.restart()
        streams.add(*_rows(3))
        with pytest.raises(StreamingQueryException, match=refusal):
            query.run()
        query.stop()
        assert tailrace.rescale(spark, query.checkpoint, old).after == old
        query.restart()
        for one in (query, other):
            one.run()
        _end(streams, query, other)


@pytest.mark.campaign
def test_two_at_once_are_one(spark: SparkSession, stream_test: StreamTest) -> None:
    streams = Streams(stream_test)
    with streams.query(streams.join()) as query, streams.query(streams.join(), "other") as other:
        _feed(streams, query, other)
        query.stop()
        for first, second, delay in ((40, 5, 0.1), (9, 9, 0.1)):
            with ThreadPoolExecutor(2) as pool:
                one = pool.submit(tailrace.rescale, spark, query.checkpoint, first)
                time.sleep(delay)
                two = pool.submit(tailrace.rescale, spark, query.checkpoint, second)
            failed = [error for error in (one.exception(), two.exception()) if error is not None]
            assert all("TAILRACE_STATE_RESCALE_IN_USE" in str(error) for error in failed), failed
            # Where both have ended well, they came one after the other.
            assert _number(query.checkpoint) in {first, second}
            query.restart()
            _step(streams, _rows(first), query, other)
            query.stop()
        _end(streams, query, other)


def _numbers_by_batch(checkpoint: Path) -> list[int]:
    """The number of partitions that each batch has begun with, or would begin with now."""
    batches = sorted((checkpoint / "offsets").glob("[0-9]*"), key=lambda f: int(f.name))
    settings = [json.loads(batch.read_text().splitlines()[1])["conf"] for batch in batches]
    return [int(conf["spark.sql.shuffle.partitions"]) for conf in settings]


def _number(checkpoint: Path) -> int:
    """The number that the query would begin with."""
    return _numbers_by_batch(checkpoint)[-1]


@pytest.mark.campaign
def test_a_command_that_is_killed(spark: SparkSession, tmp_path: Path) -> None:
    kills = int(os.environ.get("TAILRACE_KILLS", "1"))
    rng = random.Random(int(os.environ.get("TAILRACE_SEED", "20261124")))
    longest = 0.0
    for kill in range(kills + 1):
        root = tmp_path / str(kill)
        root.mkdir()
        with StreamTest(spark, root, "12:00") as test:
            streams = Streams(test)
            query, other = streams.query(streams.join()), streams.query(streams.join(), "other")
            _feed(streams, query, other)
            query.stop()
            started = time.monotonic()
            process = state_command.start("rescale", str(query.checkpoint), "--partitions", "7")
            if kill == 0:
                assert process.wait() == 0
                longest = time.monotonic() - started
            else:
                time.sleep(rng.uniform(longest / 2, longest))
                kill_group(process)
            # It goes on with either number, but between two of the writes, where Spark asks for the command.
            numbers = set(_numbers_by_batch(query.checkpoint)[-2:])
            if kill % 2 == 1 or len(numbers) > 1:
                tailrace.rescale(spark, query.checkpoint, 7)
            _end(streams, query, other)


@pytest.mark.slow
def test_a_sink_that_has_the_batch_already(
    spark: SparkSession, stream_test: StreamTest, tmp_path: Path
) -> None:
    streams = Streams(stream_test)
    with FileQuery(streams.join(), tmp_path / "files") as query, streams.query(streams.join()) as other:
        for step in range(3):
            _step(streams, _rows(step), other, query)
        query.stop()
        # As if the process had died when the sink had the batch.
        commits = (query.checkpoint / "commits").glob("[0-9]*")
        newest = max(commits, key=lambda f: int(f.name))
        newest.unlink()
        newest.with_name(f".{newest.name}.crc").unlink(missing_ok=True)
        before = len(_partitions(query.checkpoint))
        with pytest.raises(TailraceStateError, match="TAILRACE_STATE_RESCALE_CUT_OFF"):
            tailrace.rescale(spark, query.checkpoint, before + 1)
        tailrace.rescale(spark, query.checkpoint, before * 2)
        _step(streams, END, other, query)
        assert groups(query.rows()) == groups(other.rows())
