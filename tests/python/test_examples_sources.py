"""Labels that come and go with streams of their own, which Spark knows by their names."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

import tailrace
from example_frames import SCHEMA, examples
from streams import at
from tailrace import TailraceError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

_EVOLVES = "spark.sql.streaming.queryEvolution.enableSourceEvolution"
_FORMAT = "spark.sql.streaming.offsetLog.formatVersion"
_EVOLUTION = {_EVOLVES: "true", _FORMAT: "2"}

pytestmark = pytest.mark.spark(">=4.2", reason="Spark 4.1 gives sources no names")


@pytest.fixture
def evolving(spark: SparkSession) -> Iterator[SparkSession]:
    for name, value in _EVOLUTION.items():
        spark.conf.set(name, value)
    yield spark
    for name in _EVOLUTION:
        spark.conf.unset(name)


class _Streams:
    """Streams of JSON files, each with a name or none, and the query that reads them."""

    def __init__(self, spark: SparkSession, root: Path, *, named: bool = True) -> None:
        self.spark, self.root, self._named, self._files = spark, root, named, 0
        self.fails = False

    def add(self, stream: str, *rows: tuple[int, int, int]) -> None:
        self._files += 1
        folder = self.root / stream
        folder.mkdir(exist_ok=True)
        lines = [json.dumps({"id": i, "user": user, "at": at(s).isoformat()}) for i, user, s in rows]
        (folder / f"{self._files}.json").write_text("\n".join(lines))

    def frame(self, stream: str) -> DataFrame:
        (self.root / stream).mkdir(exist_ok=True)
        reader = self.spark.readStream.name(stream) if self._named else self.spark.readStream
        return reader.schema(SCHEMA).json(str(self.root / stream)).withWatermark("at", "1 second")

    def run(self, **labels: str) -> list[dict[str, Any]]:
        """Runs a query with labels, each with its stream. Gives all rows that have come out."""
        made = examples(self.frame("served"), release_every="batch")
        for label, stream in labels.items():
            made = made.label(label, self.frame(stream), time="at", after="100 seconds", since=at(0))
        return self.write(made.stream())

    def cut_off(self, **labels: str) -> None:
        """Runs it until its first batch has been planned and read, which then fails."""
        self.fails = True
        with pytest.raises(StreamingQueryException, match="cut off"):
            self.run(**labels)
        self.fails = False

    def write(self, frame: DataFrame) -> list[dict[str, Any]]:
        writer = frame.writeStream.option("checkpointLocation", str(self.root / "checkpoint"))

        def write(rows: DataFrame, batch: int) -> None:
            found = [row.asDict(recursive=True) for row in rows.collect()]
            if self.fails:
                raise ValueError("cut off")
            (self.root / f"{batch}.out").write_text(json.dumps(found, default=str))

        writer.trigger(availableNow=True).foreachBatch(write).start().awaitTermination()
        return [row for file in self.root.glob("*.out") for row in json.loads(file.read_text())]


def _begun(spark: SparkSession, root: Path, *, named: bool = True) -> _Streams:
    """With an impression and a click that belongs to it."""
    streams = _Streams(spark, root, named=named)
    streams.add("served", (1, 7, 10))
    streams.add("clicks", (10, 7, 12))
    return streams


def _refused(streams: _Streams, **labels: str) -> str:
    with pytest.raises(TailraceError) as caught:
        streams.run(**labels)
    assert caught.value.condition == "TAILRACE_CHECKPOINT_INCOMPATIBLE"
    return str(caught.value)


def _end(streams: _Streams, *names: str) -> None:
    """Moves the watermark past all windows."""
    for name in names:
        streams.add(name, (-1, 0, 5000))


@pytest.mark.slow
def test_a_label_that_comes_back_with_its_stream_is_refused(evolving: SparkSession, tmp_path: Path) -> None:
    streams = _begun(evolving, tmp_path)
    streams.add("buys", (20, 7, 13))
    streams.run(click="clicks", buy="buys")
    streams.add("served", (2, 8, 20))
    streams.add("clicks", (11, 8, 21))
    streams.run(click="clicks")
    streams.add("buys", (21, 8, 22))
    for _ in range(2):
        assert "source 'buys' was left out, and comes back" in _refused(streams, click="clicks", buy="buys")
    # It goes on without.
    streams.add("clicks", (12, 8, 23))
    streams.run(click="clicks")
    # A source with another name has each of its events once.
    (tmp_path / "buys").rename(tmp_path / "orders")
    _end(streams, "served", "clicks", "orders")
    found = {row["id"]: row for row in streams.run(click="clicks", order="orders")}
    assert [e["id"] for e in found[1]["click"]] == [10]
    assert [e["id"] for e in found[1]["order"]] == [20]
    assert [e["id"] for e in found[2]["click"]] == [11, 12]
    assert [e["id"] for e in found[2]["order"]] == [21]


def test_a_label_that_takes_its_first_stream_again_is_refused(evolving: SparkSession, tmp_path: Path) -> None:
    streams = _begun(evolving, tmp_path)
    streams.run(click="clicks")
    streams.add("taps", (11, 7, 13))
    streams.run(click="taps")
    assert "source 'clicks' was left out, and comes back" in _refused(streams, click="clicks")
    _end(streams, "served", "taps")
    found = {row["id"]: row for row in streams.run(click="taps")}
    assert [e["id"] for e in found[1]["click"]] == [10, 11]


def test_a_stream_that_a_batch_lacks_which_was_cut_off_is_refused(
    evolving: SparkSession, tmp_path: Path
) -> None:
    streams = _begun(evolving, tmp_path)
    streams.run(click="clicks")
    streams.add("taps", (11, 7, 13))
    streams.cut_off(click="taps")
    # Spark has noted where the batch ends, without the clicks.
    for _ in range(2):
        assert "source 'clicks' was left out, and comes back" in _refused(streams, click="clicks")
    _end(streams, "served", "taps")
    found = {row["id"]: row for row in streams.run(click="taps")}
    assert [e["id"] for e in found[1]["click"]] == [10, 11]


def test_a_first_batch_with_a_new_stream_that_was_cut_off_runs_again(
    evolving: SparkSession, tmp_path: Path
) -> None:
    streams = _begun(evolving, tmp_path)
    streams.run(click="clicks")
    streams.add("buys", (20, 7, 13))
    streams.cut_off(click="clicks", buy="buys")
    streams.run(click="clicks", buy="buys")
    _end(streams, "served", "clicks", "buys")
    found = {row["id"]: row for row in streams.run(click="clicks", buy="buys")}
    assert [e["id"] for e in found[1]["buy"]] == [20]


@pytest.mark.slow
def test_a_stream_that_comes_when_an_earlier_batch_runs_again_is_known(
    evolving: SparkSession, tmp_path: Path
) -> None:
    streams = _begun(evolving, tmp_path)
    streams.run(click="clicks")
    streams.add("clicks", (11, 7, 13))
    streams.cut_off(click="clicks")
    streams.add("buys", (20, 7, 14))
    # It begins with the batch of before, which has no offset of the new stream.
    streams.run(click="clicks", buy="buys")
    streams.add("clicks", (12, 7, 15))
    streams.run(click="clicks")
    assert "source 'buys' was left out, and comes back" in _refused(streams, click="clicks", buy="buys")


def test_a_join_whose_stream_comes_back_is_refused(evolving: SparkSession, tmp_path: Path) -> None:
    streams = _begun(evolving, tmp_path)

    def run(stream: str) -> None:
        right = streams.frame(stream).toDF("event", "user", "seen")
        streams.write(
            tailrace.join(
                streams.frame("served"), right, on="user", left_time="at", right_time="seen", after="1 minute"
            )
        )

    run("clicks")
    streams.add("taps", (11, 7, 13))
    run("taps")
    with pytest.raises(TailraceError, match="source 'clicks' was left out, and comes back"):
        run("clicks")


def test_names_that_come_later_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    spark.conf.set(_FORMAT, "2")
    try:
        before = _begun(spark, tmp_path, named=False)
        before.run(click="clicks")
        spark.conf.set(_EVOLVES, "true")
        assert "sources have names, and had none" in _refused(_Streams(spark, tmp_path), click="clicks")
    finally:
        spark.conf.unset(_FORMAT)
        spark.conf.unset(_EVOLVES)


def test_labels_of_one_stream_take_turns(evolving: SparkSession, tmp_path: Path) -> None:
    streams = _Streams(evolving, tmp_path)
    streams.add("served", (1, 7, 10))
    streams.add("events", (10, 7, 12))
    streams.run(click="events")
    streams.add("events", (11, 7, 13))
    streams.run(buy="events")
    streams.add("events", (12, 7, 14))
    _end(streams, "served", "events")
    found = {row["id"]: row for row in streams.run(click="events")}
    assert [e["id"] for e in found[1]["click"]] == [10, 12]


def test_a_label_comes_back_with_a_stream_that_has_no_name(spark: SparkSession, tmp_path: Path) -> None:
    streams = _begun(spark, tmp_path, named=False)
    streams.add("buys", (20, 7, 13))
    streams.run(click="clicks", buy="buys")
    streams.add("buys", (21, 7, 14))
    streams.run(click="clicks", tap="buys")
    streams.add("clicks", (11, 8, 15))
    with pytest.raises(StreamingQueryException) as caught:
        streams.run(click="clicks", buy="buys")
    assert "label 'buy' was left out, and comes back. If its stream was left out, too" in str(caught.value)
    _end(streams, "served", "clicks", "buys")
    found = {row["id"]: row for row in streams.run(click="clicks", tap="buys")}
    assert [e["id"] for e in found[1]["click"]] == [10]
    assert [e["id"] for e in found[1]["tap"]] == [21]
