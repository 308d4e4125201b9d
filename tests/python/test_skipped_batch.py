"""A sink has a batch, the query dies before Spark knows, and then the sink asks for none of its rows.

So does the function of `foreachBatch` here, which compares batch numbers, and Spark's own sink of files.
What the batch's tasks would have told the driver must be known nevertheless.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

import tailrace
from file_queries import FileQuery
from streams import Row as Event
from streams import Streams, groups, join, pairs
from synced import Row, Synced, shown
from tailrace.testing.rows import as_dicts
from trees import Trees, down

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from tailrace.options import How
    from tailrace.testing import StreamTest


class OnceOnly:
    """A function of `foreachBatch` that takes each batch once, and dies when it has taken one of them.

    What it has taken is in files: over Spark Connect each start of a query has a function of its own.
    """

    def __init__(self, folder: Path, dies_after: int, *, looks_first: bool = False) -> None:
        self._folder = folder
        self._looks_first = looks_first
        self._dies_after = dies_after
        folder.mkdir()

    def __call__(self, frame: DataFrame, batch: int) -> None:
        if self._looks_first:
            frame.isEmpty()
        taken = self._folder / f"{batch:04d}"
        if taken.exists():
            return
        taken.write_bytes(pickle.dumps(as_dicts(frame)))
        if batch == self._dies_after:
            raise RuntimeError("dies")

    @property
    def rows(self) -> list[dict[str, Any]]:
        """All that it has taken."""
        files = sorted(self._folder.iterdir())
        return [row for file in files for row in pickle.loads(file.read_bytes())]  # noqa: S301  its own

    def drain(self, result: DataFrame, checkpoint: Path) -> None:
        """Runs the query until all is read, or it dies."""
        writer = result.writeStream.foreachBatch(self).option("checkpointLocation", str(checkpoint))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()


def _die(sink: OnceOnly, result: DataFrame, checkpoint: Path) -> None:
    with pytest.raises(StreamingQueryException, match="dies"):
        sink.drain(result, checkpoint)


def _undo(checkpoint: Path, batch: int) -> None:
    """As a kill leaves it between the commit of the sink and the end of the batch."""
    for name in (f"commits/{batch}", f"tailrace-sync/sync_join/{batch}.progress"):
        (checkpoint / name).unlink()


@pytest.mark.parametrize("kind", ["files", "function", "function that looks first"])
def test_a_partition_that_came_in_it_is_waited_for(
    stream_test: StreamTest, tmp_path: Path, kind: str
) -> None:
    streams = Synced(stream_test)
    sink = OnceOnly(tmp_path / "taken", 0, looks_first=kind != "function")

    def run() -> list[tuple[Any, ...]]:
        stream_test.flush()
        if kind != "files":
            sink.drain(streams.join(), tmp_path / "checkpoint")
            return sorted(map(shown, sink.rows), key=repr, reverse=True)
        with FileQuery(streams.join(), tmp_path / "files") as query:
            query.run()
            return sorted(map(shown, query.rows()), key=repr, reverse=True)

    # The row without a key comes out at once, of the first partition: to look for one row no other task runs.
    streams.add(left=[Row(1, 0, 0), Row(None, 0, 0)], right=[Row(90, 0, 8), Row(91, 1, 0)])
    stream_test.flush()
    at_once = [(None, 0, None)]
    if kind == "files":
        assert run() == at_once
        _undo(tmp_path / "files" / "checkpoint", 0)
    else:
        _die(sink, streams.join(), tmp_path / "checkpoint")
    streams.add(right=[Row(92, 0, 20)])
    assert run() == at_once, "partition 1 isn't waited for"
    streams.add(right=[Row(1, 1, 3), Row(93, 1, 9)])
    assert run() == [*at_once, (1, 0, 3)]


def test_rows_that_it_has_made_due_come_out_without_more(stream_test: StreamTest, tmp_path: Path) -> None:
    streams = Synced(stream_test)
    sink = OnceOnly(tmp_path / "taken", 0)
    streams.add(left=[Row(1, 0, 0)], right=[Row(1, 0, 1), Row(90, 0, 8)])
    stream_test.flush()
    _die(sink, streams.join(), tmp_path / "checkpoint")
    sink.drain(streams.join(), tmp_path / "checkpoint")
    assert [shown(row) for row in sink.rows] == [(1, 0, 1)]


def test_a_function_that_skips_a_batch_it_has_never_had_is_found_out(
    stream_test: StreamTest, tmp_path: Path
) -> None:
    streams = Synced(stream_test)
    streams.add(left=[Row(1, 0, 0)], right=[Row(90, 0, 2)])
    stream_test.flush()

    def first_only(frame: DataFrame, batch: int) -> None:
        if batch == 0:
            frame.collect()

    writer = streams.join().writeStream.foreachBatch(first_only)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    query.processAllAvailable()
    streams.add(right=[Row(91, 0, 20)])
    stream_test.flush()
    # The message of Spark's STATE_STORE_COMMIT_VALIDATION_FAILED has the state only.
    with pytest.raises(StreamingQueryException, match="SQLSTATE: XXKST"):
        query.processAllAvailable()


def _minute(minute: int) -> int:
    return 12 * 60 + minute


def _timed(trees: Trees) -> DataFrame:
    """The node, a host, and the time that stands for its parent in minutes of a day."""
    columns = ("node", "cast(node AS string) AS host", "timestamp_micros(parent * 60000000) AS at")
    return trees.stream("nodes").selectExpr(*columns)


@pytest.mark.slow
def test_a_host_that_came_in_it_is_waited_for(spark: SparkSession, tmp_path: Path) -> None:
    trees = Trees(spark, tmp_path)

    def counts() -> DataFrame:
        return tailrace.accurate_watermark(_timed(trees), "at", host="host").groupBy("at").count()

    sink = OnceOnly(tmp_path / "taken", 1)
    trees.add("nodes", [(1, _minute(0))], [(2, _minute(0))])
    _die(sink, counts(), tmp_path / "query")
    later = [[(1, _minute(30))], [(1, _minute(31))], [(2, _minute(0)), (2, _minute(40))], [(1, _minute(40))]]
    trees.add("nodes", *later)
    sink.drain(counts(), tmp_path / "query")
    by_minute = {row["at"].strftime("%H:%M"): row["count"] for row in sink.rows}
    assert by_minute["12:00"] == 3, "12:00 was over before host 2 had passed it"


@pytest.mark.slow
def test_rows_that_it_has_sent_round_hold_the_watermark(spark: SparkSession, tmp_path: Path) -> None:
    trees = Trees(spark, tmp_path)

    def counts() -> DataFrame:
        accurate = tailrace.accurate_watermark(_timed(trees), "at", host="host").drop("host")
        return tailrace.recursively(accurate, down, mode="feedback").groupBy("at").count()

    trees.add("nodes", [(5, _minute(0))], [(5, _minute(30))])
    # In batch 2 nothing is read, and 5 from 12:00 goes round for the third time.
    sink = OnceOnly(tmp_path / "taken", 2)
    _die(sink, counts(), tmp_path / "query")
    trees.add("nodes", [(5, _minute(31))], [(5, _minute(32))])
    sink.drain(counts(), tmp_path / "query")
    by_minute = {row["at"].strftime("%H:%M"): row["count"] for row in sink.rows}
    assert by_minute["12:00"] == by_minute["12:30"] == 5, "rows that went round were taken for late"


def test_the_rows_that_go_round_are_those_that_the_sink_has(spark: SparkSession, tmp_path: Path) -> None:
    """Rows go round as the sink has them: the run that the sink ignores draws other random names."""
    trees = Trees(spark, tmp_path)
    trees.add("nodes", [(4, _minute(n)) for n in range(3)])
    named = (
        _timed(trees).selectExpr("node", "'' AS name", "'' AS above", "at").withWatermark("at", "1 minute")
    )

    def op(u: DataFrame) -> DataFrame:
        return u.where("node > 0").selectExpr("node - 1 AS node", "uuid() AS name", "name AS above", "at")

    def looped() -> DataFrame:
        return tailrace.recursively(named, op, mode="feedback")

    sink = OnceOnly(tmp_path / "taken", 1)
    _die(sink, looped(), tmp_path / "query")
    sink.drain(looped(), tmp_path / "query")
    assert len(sink.rows) == 12
    names = {row["name"] for row in sink.rows} | {""}
    assert len(names) == 13
    assert {row["above"] for row in sink.rows} <= names, "a row goes round that has never come out"


@pytest.mark.parametrize("how", ["left", "inner"])
def test_a_join_of_checkpoint_format_2_goes_on(
    spark: SparkSession, stream_test: StreamTest, tmp_path: Path, how: How
) -> None:
    setting = "spark.sql.streaming.stateStore.checkpointFormatVersion"
    before = spark.conf.get(setting)
    spark.conf.set(setting, "2")
    try:
        streams = Streams(stream_test)
        sides = (
            [Event(i, i % 5, i) for i in range(20)] + [Event(900, 9, 1000)],
            [Event(100 + i, i % 5, i) for i in range(20)] + [Event(901, 9, 1000)],
        )
        view = groups if how == "left" else pairs
        with FileQuery(streams.join(how=how), tmp_path / "files") as query:
            streams.add(*(rows[:-1] for rows in sides))
            stream_test.flush()
            query.run()
            query.stop()
            commits = (query.checkpoint / "commits").glob("[0-9]*")
            max(commits, key=lambda f: int(f.name)).unlink()
            streams.add(*(rows[-1:] for rows in sides))
            stream_test.flush()
            query.run()
            batch = join(*streams.batch_frames(*sides), how=how)
            expected = [row for row in view(as_dicts(batch)) if row[0] != 900]
            assert [row for row in view(query.rows()) if row[0] != 900] == expected
    finally:
        spark.conf.set(setting, before or "1")
