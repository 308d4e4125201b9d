"""Shared by all processes that campaigns kill: their Spark session, and the query until its end."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

import local_spark

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

# Where the test wants what is tested, as `places` tells it: a store's URL and Spark's settings for it.
_PLACE = json.loads(os.environ.get("TAILRACE_PLACE", "{}"))

_SCHEMA = "id long, key long, ts timestamp, note string"


def start(more: Mapping[str, str] | None = None) -> SparkSession:
    """Starts it, with further settings, and waits until the test says BEGIN."""
    settings = {
        # Often, so that purging is killed too.
        "spark.sql.streaming.stateStore.maintenanceInterval": "300ms",
        "spark.sql.streaming.minBatchesToRetain": "3",
        **_PLACE.get("settings", {}),
        **(more or {}),
    }
    session = local_spark.start("1g", settings)
    if sys.stdin.readline() != "BEGIN\n":
        raise SystemExit("the test has ended")
    return session


def sides(session: SparkSession, root: Path, *names: str) -> list[DataFrame]:
    """The streams of folders of the root, a file a micro-batch, with the rows that `streams.arrow` writes.

    Their columns but the key begin with the folder's first letter: `l_id`, `key`, `l_ts`, `l_note` of "left".
    """
    found = []
    for name in names:
        reader = session.readStream.schema(_SCHEMA).option("maxFilesPerTrigger", 1)
        stream = reader.parquet(str(root / name)).toDF(
            f"{name[0]}_id", "key", f"{name[0]}_ts", f"{name[0]}_note"
        )
        found.append(stream.withWatermark(f"{name[0]}_ts", "10 seconds"))
    return found


def into_files(results: DataFrame, root: Path) -> DataStreamWriter:
    """An idempotent sink, ROOT/out, which `killing.committed_files` reads."""
    return results.writeStream.format("parquet").option("path", str(root / "out"))


def at(root: Path, folder: str) -> str:
    """A folder of the worker's root, or of the store that the test wants it in."""
    return f"{_PLACE.get('url', root)}/{folder}"


def _report(query: StreamingQuery) -> str:
    """How long the last hundred micro-batches took, and what their tasks copied from the checkpoint."""
    seconds = sorted(progress["batchDuration"] / 1000 for progress in query.recentProgress)
    operators = [operator for progress in query.recentProgress for operator in progress["stateOperators"]]
    copied = sum(operator["customMetrics"].get("loadedBytes", 0) for operator in operators)
    middle = seconds[len(seconds) // 2] if seconds else 0.0
    longest = max(seconds, default=0.0)
    return f"{len(seconds)} micro-batches, median {middle} s, longest {longest} s, {copied} bytes copied"


def run(
    writer: DataStreamWriter,
    checkpoint: str,
    *,
    drain: bool = True,
    meanwhile: Callable[[StreamingQuery], None] | None = None,
) -> None:
    """Says READY once the query is up, and DONE once it has ended: where `drain`, when all was read.

    With `meanwhile` it runs until that returns.
    """
    writer = writer.option("checkpointLocation", checkpoint)
    query = (writer.trigger(availableNow=True) if drain and meanwhile is None else writer).start()
    print("READY", flush=True)
    if meanwhile is None:
        query.awaitTermination()
    else:
        meanwhile(query)
        query.stop()
    print(_report(query), flush=True)
    print("DONE", flush=True)
    SparkSession.active().stop()
