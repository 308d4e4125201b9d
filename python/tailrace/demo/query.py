"""Runs `tailrace.join` over the demo's streams in a local Spark and hands out its progress."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import tailrace
from tailrace import _local
from tailrace.demo.progress import Batch, read_batch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from tailrace.demo.data import Workload

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


def local_session(driver_memory: str) -> AbstractContextManager[SparkSession]:
    """The demo's session, stopped at the end.

    Args:
        driver_memory: heap of the JVM, as Spark reads sizes ("2g").
    """
    settings = {
        "spark.sql.shuffle.partitions": str(os.cpu_count() or 1),
        "spark.sql.session.timeZone": "UTC",
        # All batches of the run, which may end between two looks.
        "spark.sql.streaming.numRecentProgressUpdates": "10000",
    }
    return _local.local_session("tailrace demo", driver_memory, settings)


def run(spark: SparkSession, workload: Workload, examples_dir: Path, checkpoint_dir: Path) -> Iterator[Batch]:
    """Starts the query, and yields each micro-batch as it ends, until all files are read.

    Args:
        spark: a session that `tailrace.configure` made.
        workload: the streams.
        examples_dir: where the result goes, as parquet; must not exist.
        checkpoint_dir: the query's checkpoint; must not exist.

    Raises:
        TailraceError: the query failed, and Tailrace says why.
        StreamingQueryException: the query failed for another reason.
    """
    examples = tailrace.join(
        _stream(spark, workload.impressions_dir, IMPRESSIONS_SCHEMA, "served_at"),
        _stream(spark, workload.engagements_dir, ENGAGEMENTS_SCHEMA, "engaged_at"),
        on=["user_id", "item_id"],
        left_time="served_at",
        right_time="engaged_at",
        after=AFTER,
    )
    query = (
        examples.writeStream.format("parquet")
        .option("path", str(examples_dir))
        .option("checkpointLocation", str(checkpoint_dir))
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


def _stream(spark: SparkSession, directory: Path, schema: str, time_column: str) -> DataFrame:
    files = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(directory))
    return files.withWatermark(time_column, WATERMARK_DELAY)


def _batches(query: StreamingQuery) -> Iterator[Batch]:
    seen = -1
    running = True
    while running:
        # Asked before the progress is read: what ends in between is read in this round.
        running = query.isActive
        for progress in query.recentProgress:
            # A trigger that finds nothing to do reports the batch before it once more.
            if progress["batchId"] > seen and progress["stateOperators"]:
                seen = progress["batchId"]
                yield read_batch(progress)
        if running:
            time.sleep(_POLL_SECONDS)
