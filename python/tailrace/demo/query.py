"""The demo's queries over its streams in a local Spark: Tailrace's join, and the same with Spark's own."""

from __future__ import annotations

import json
import os
import time
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from pyspark.sql.functions import expr

import tailrace
from tailrace._bridge.literal_path import streamed
from tailrace.commands import local_session as sessions

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


class Engine(StrEnum):
    """Whose join a query is."""

    TAILRACE = "tailrace"
    SPARK = "spark"


# Directories of the streams' files.
IMPRESSIONS = "impressions"
ENGAGEMENTS = "engagements"
IMPRESSIONS_SCHEMA = (
    "impression_id long, user_id long, item_id long, served_at timestamp, position int, price double, "
    "model string"
)
ENGAGEMENTS_SCHEMA = (
    "engagement_id long, user_id long, item_id long, engaged_at timestamp, action string, dwell_ms int"
)

WATERMARK_DELAY = "2 minutes"
AFTER = "30 minutes"
AFTER_US = 30 * 60_000_000
_POLL_SECONDS = 0.2
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def local_session(driver_memory: str, directory: Path | None = None) -> AbstractContextManager[SparkSession]:
    """The demo's session, stopped at the end.

    Args:
        driver_memory: heap of the JVM, as Spark reads sizes ("2g").
        directory: for temporary files, which stay if the JVM is killed; None takes the JVM's.
    """
    settings = {
        "spark.sql.shuffle.partitions": str(os.cpu_count() or 1),
        "spark.sql.session.timeZone": "UTC",
        # All batches of the run, which may end between two looks.
        "spark.sql.streaming.numRecentProgressUpdates": "10000",
        # For Spark's own join: the store that holds more than a heap does.
        "spark.sql.streaming.stateStore.providerClass": _ROCKSDB,
    }
    return sessions.local_session("tailrace demo", driver_memory, settings, directory)


def run(spark: SparkSession, directory: Path, engine: Engine) -> Iterator[dict[str, Any]]:
    """Starts a query, or continues with one that was killed, and yields the progress of each micro-batch.

    Args:
        spark: a session that `tailrace.configure` made.
        directory: has the streams that `data.generate` made; gets `ENGINE-examples`, the result as parquet,
            and `ENGINE-checkpoint`.
        engine: whose join.

    Raises:
        TailraceError: the query failed, and Tailrace says why.
        StreamingQueryException: the query failed for another reason.
    """
    query = (
        _joined(spark, directory, engine)
        .writeStream.format("parquet")
        .option("path", str(examples_of(directory, engine)))
        .option("checkpointLocation", str(directory / f"{engine}-checkpoint"))
        .outputMode("append")
        .trigger(availableNow=True)
        .start()
    )
    try:
        yield from _batches(query)
    finally:
        query.stop()
    failure = query.exception()
    if failure is not None:
        raise failure


def examples_of(directory: Path, engine: Engine) -> Path:
    """Where the result of an engine is."""
    return directory / f"{engine}-examples"


def _joined(spark: SparkSession, directory: Path, engine: Engine) -> DataFrame:
    impressions = _stream(spark, directory / IMPRESSIONS, IMPRESSIONS_SCHEMA, "served_at")
    engagements = _stream(spark, directory / ENGAGEMENTS, ENGAGEMENTS_SCHEMA, "engaged_at")
    if engine is Engine.TAILRACE:
        return tailrace.join(
            impressions,
            engagements,
            on=["user_id", "item_id"],
            left_time="served_at",
            right_time="engaged_at",
            after=AFTER,
        )
    # A row for each label, as early as it comes; a row without one when the window closes.
    renamed = engagements.withColumnsRenamed({"user_id": "by_user", "item_id": "on_item"})
    matches = expr(
        "user_id = by_user AND item_id = on_item AND "
        f"engaged_at BETWEEN served_at AND served_at + INTERVAL {AFTER}"
    )
    return impressions.join(renamed, matches, "left_outer")


def _stream(spark: SparkSession, directory: Path, schema: str, time_column: str) -> DataFrame:
    files = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(streamed(directory))
    return files.withWatermark(time_column, WATERMARK_DELAY)


def _batches(query: StreamingQuery) -> Iterator[dict[str, Any]]:
    seen = -1
    running = True
    while running:
        # Asked before the progress is read: what ends in between is read in this round.
        running = query.isActive
        for progress in query.recentProgress:
            # A trigger that finds nothing to do reports the batch before it again.
            if progress["batchId"] > seen and progress["stateOperators"]:
                seen = progress["batchId"]
                yield json.loads(progress.json)
        if running:
            time.sleep(_POLL_SECONDS)
