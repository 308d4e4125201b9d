"""What the processes that campaigns kill have in common: their Spark session, and the query until its end."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

import tailrace

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter


def start(**more: str) -> SparkSession:
    """Starts it and waits until the test says BEGIN.

    Args:
        more: settings, by their names with _ for the dots.
    """
    builder = SparkSession.builder.master("local[2]")
    settings = {
        "spark.driver.memory": "1g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": "2",
        # Often, so that purging is killed too.
        "spark.sql.streaming.stateStore.maintenanceInterval": "300ms",
        "spark.sql.streaming.minBatchesToRetain": "3",
        **{name.replace("_", "."): value for name, value in more.items()},
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = tailrace.configure(builder).getOrCreate()
    if sys.stdin.readline() != "BEGIN\n":
        raise SystemExit("the test has ended")
    return session


def into_files(results: DataFrame, root: Path) -> DataStreamWriter:
    """An idempotent sink, ROOT/out, which `killing.committed_files` reads."""
    return results.writeStream.format("parquet").option("path", str(root / "out"))


def run(writer: DataStreamWriter, checkpoint: Path, *, drain: bool = True) -> None:
    """Says READY once the query is up, and DONE once it has ended: where `drain`, when all was read."""
    writer = writer.option("checkpointLocation", str(checkpoint))
    query = (writer.trigger(availableNow=True) if drain else writer).start()
    print("READY", flush=True)
    query.awaitTermination()
    print("DONE", flush=True)
    SparkSession.active().stop()
