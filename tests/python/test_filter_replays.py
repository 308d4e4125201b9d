"""The replay filter as a user calls it, over a stream of files that plays a topic."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import tailrace
from kept_batches import KeptBatches

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "topic string, partition int, offset bigint, key binary, value string"


def topic(spark: SparkSession, first: int, positions: list[int]) -> DataFrame:
    """Records at the topic's offsets `first` and up, from these positions of source partition 0."""
    rows = [("t", 0, first + i, p, f"v{p}") for i, p in enumerate(positions)]
    frame = spark.createDataFrame(
        rows, "topic string, partition int, offset bigint, position bigint, value string"
    )
    key = tailrace.stream_metadata(7, "partition", "position").alias("key")
    return frame.select("topic", "partition", "offset", key, "value")


def drain(frame: DataFrame, checkpoint: Path) -> list[str]:
    """Runs a query until it has read all that is there. @return the values that came out"""
    kept = KeptBatches(checkpoint.with_name("kept"))
    query = (
        frame.writeStream.foreachBatch(kept)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return [row["value"] for row in kept.rows()]


@pytest.mark.contract
def test_replays_are_dropped_over_restarts(spark: SparkSession, tmp_path: Path) -> None:
    folder = str(tmp_path / "in")
    topic(spark, 0, [0, 1, 2, 3, 2, 3, 4]).write.parquet(folder)
    stream = spark.readStream.schema(SCHEMA).parquet(folder)
    assert sorted(drain(tailrace.filter_replays(stream), tmp_path / "ckpt")) == [f"v{i}" for i in range(5)]
    topic(spark, 7, [3, 4, 5, 6]).write.mode("append").parquet(folder)
    assert sorted(drain(tailrace.filter_replays(stream), tmp_path / "ckpt")) == ["v5", "v6"]
    assert drain(tailrace.filter_replays(stream), tmp_path / "ckpt") == []


@pytest.mark.contract
def test_a_batch_frame_and_three_columns(spark: SparkSession) -> None:
    frame = topic(spark, 0, [0, 1, 1, 0, 2]).select("*", tailrace.parse_stream_metadata("key").alias("m"))
    flat = frame.selectExpr(
        "topic", "partition", "offset", "m.pid", "m.partition AS p", "m.offset AS o", "value"
    )
    marked = tailrace.filter_replays(flat, pid="pid", partition="p", offset="o", on_replay="mark")
    assert [r["_mark"] for r in marked.orderBy("offset").collect()] == [None, None, "replay", "replay", None]


def test_another_order_and_disorder(spark: SparkSession) -> None:
    frame = topic(spark, 0, [5, 9, 7, 7, 1]).withColumnsRenamed(
        {"topic": "a", "partition": "b", "offset": "c"}
    )
    once = tailrace.filter_replays(frame, order=["a", "b", "c"], disorder=3)
    assert sorted(r.value for r in once.collect()) == ["v5", "v7", "v9"]


@pytest.mark.contract
@pytest.mark.parametrize(
    ("options", "condition"),
    [
        ({"key": "nokey"}, "TAILRACE_COLUMN_NOT_FOUND"),
        ({"key": "value"}, "TAILRACE_COLUMN_TYPE"),
        ({"on_replay": "keep"}, "TAILRACE_OPTION_INVALID"),
        ({"disorder": -1}, "TAILRACE_OPTION_INVALID"),
        ({"name": "a b"}, "TAILRACE_OPTION_INVALID"),
        ({"forget_after": "soon"}, "TAILRACE_OPTION_INVALID"),
        ({"forget_after": "1 day", "event_time": "offset"}, "TAILRACE_COLUMN_TYPE"),
    ],
)
def test_a_wrong_argument_is_refused_by_name(
    spark: SparkSession, options: dict[str, Any], condition: str
) -> None:
    with pytest.raises(tailrace.TailraceReplayError) as refused:
        tailrace.filter_replays(topic(spark, 0, [1]), **options)
    assert refused.value.condition == condition


def test_the_counts_are_in_the_progress(spark: SparkSession, tmp_path: Path) -> None:
    folder = str(tmp_path / "in")
    topic(spark, 0, [0, 1, 5, 5, 6]).write.parquet(folder)
    once = tailrace.filter_replays(
        spark.readStream.schema(SCHEMA).parquet(folder), forget_after=timedelta(days=30)
    )
    query = (
        once.writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path / "ckpt"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    progress = query.lastProgress
    assert progress is not None
    counts = progress["observedMetrics"]["tailrace.replays"]
    assert (counts["passed"], counts["replays"], counts["gaps"], counts["forgotten"]) == (4, 1, 3, 0)
    assert [(o["pid"], o["partition"], o["gaps"]) for o in counts["mostGaps"]] == [(7, 0, 3)]


def test_wrong_types(spark: SparkSession) -> None:
    frame = topic(spark, 0, [1])
    with pytest.raises(TypeError, match="go together: `partition` and `offset` are missing"):
        tailrace.filter_replays(frame, pid="pid")
    with pytest.raises(TypeError, match="go together: `offset` is missing"):
        tailrace.filter_replays(frame, pid="pid", partition="partition")
    with pytest.raises(TypeError, match="`offset` must be the name of a column or a Column, not int"):
        tailrace.filter_replays(frame, pid="pid", partition="partition", offset=3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="frame"):
        tailrace.filter_replays("frame")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="disorder"):
        tailrace.filter_replays(frame, disorder="3")  # type: ignore[arg-type]
