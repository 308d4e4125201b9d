"""Labels that come and go with streams of their own, which Spark knows by their names."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

from example_frames import SCHEMA, examples
from streams import at

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

_EVOLUTION = {
    "spark.sql.streaming.queryEvolution.enableSourceEvolution": "true",
    "spark.sql.streaming.offsetLog.formatVersion": "2",
}


@pytest.fixture
def evolving(spark: SparkSession) -> Iterator[SparkSession]:
    for name, value in _EVOLUTION.items():
        spark.conf.set(name, value)
    yield spark
    for name in _EVOLUTION:
        spark.conf.unset(name)


class _Streams:
    """Streams of JSON files, each with a name, and the query that reads them."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self.spark, self.root, self._files = spark, root, 0

    def add(self, stream: str, *rows: tuple[int, int, int]) -> None:
        self._files += 1
        folder = self.root / stream
        folder.mkdir(exist_ok=True)
        lines = [json.dumps({"id": i, "user": user, "at": at(s).isoformat()}) for i, user, s in rows]
        (folder / f"{self._files}.json").write_text("\n".join(lines))

    def frame(self, stream: str) -> DataFrame:
        (self.root / stream).mkdir(exist_ok=True)
        reader = self.spark.readStream.name(stream).schema(SCHEMA)
        return reader.json(str(self.root / stream)).withWatermark("at", "1 second")

    def run(self, **labels: str) -> list[dict[str, Any]]:
        """Runs a query with labels, each with its stream. Gives all rows that have come out."""
        made = examples(self.frame("served"), release_every="batch")
        for label, stream in labels.items():
            made = made.label(label, self.frame(stream), time="at", after="100 seconds", since=at(0))
        writer = made.stream().writeStream.option("checkpointLocation", str(self.root / "checkpoint"))

        def write(rows: DataFrame, batch: int) -> None:
            found = [row.asDict(recursive=True) for row in rows.collect()]
            (self.root / f"{batch}.out").write_text(json.dumps(found, default=str))

        writer.trigger(availableNow=True).foreachBatch(write).start().awaitTermination()
        return [row for file in self.root.glob("*.out") for row in json.loads(file.read_text())]


def test_a_label_that_comes_back_with_its_stream_is_refused(evolving: SparkSession, tmp_path: Path) -> None:
    streams = _Streams(evolving, tmp_path)
    streams.add("served", (1, 7, 10))
    streams.add("clicks", (10, 7, 12))
    streams.add("buys", (20, 7, 13))
    streams.run(click="clicks", buy="buys")
    streams.add("served", (2, 8, 20))
    streams.add("clicks", (11, 8, 21))
    streams.run(click="clicks")
    streams.add("buys", (21, 8, 22))
    with pytest.raises(
        StreamingQueryException, match="'buy' was left out, and comes back with a stream"
    ) as caught:
        streams.run(click="clicks", buy="buys")
    assert "TAILRACE_CHECKPOINT_INCOMPATIBLE" in str(caught.value)
    # With another name it has each of its events once.
    for stream in ("served", "clicks", "buys"):
        streams.add(stream, (-1, 0, 5000))
    found = {row["id"]: row for row in streams.run(click="clicks", order="buys")}
    assert [e["id"] for e in found[1]["click"]] == [10]
    assert [e["id"] for e in found[1]["order"]] == [20]
    assert [e["id"] for e in found[2]["order"]] == [21]
