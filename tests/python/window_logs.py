"""Logs of a few hosts, and the query that lands their windows."""

from __future__ import annotations

import datetime as dt
import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

import tailrace

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


SCHEMA = "host string, at timestamp, id long"
NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
PATIENCE = 30


def undo(checkpoint: Path) -> None:
    """Takes the last micro-batch from a checkpoint's commits."""
    newest = max((checkpoint / "commits").glob("[0-9]*"), key=lambda file: int(file.name))
    newest.unlink()
    (newest.parent / f".{newest.name}.crc").unlink(missing_ok=True)


def name(second: int) -> str:
    """The directory of the window that begins then."""
    return (NOON + dt.timedelta(seconds=second)).strftime("window_start=%Y%m%dT%H%M%SZ")


class Logs:
    """A folder of log files, and a query that lands windows of ten seconds."""

    def __init__(self, spark: SparkSession, root: Path, **options: Any) -> None:  # noqa: ANN401 - as they are there
        self.spark = spark
        self.root = root
        self.out = root / "out"
        self.source = {"completeness": "100%", "hosts": ["a", "b"], **options.pop("source", {})}
        self.options = {"window": "10 seconds", **options}
        self.query: StreamingQuery | None = None
        self._files = 0
        (root / "in").mkdir(parents=True)

    def add(self, *rows: tuple[str, float | None]) -> None:
        """Adds a file of rows."""
        times = [None if second is None else NOON + dt.timedelta(seconds=second) for _, second in rows]
        table = {
            "host": pa.array([host for host, _ in rows], pa.string()),
            "at": pa.array(times, pa.timestamp("us", "UTC")),
            "id": pa.array([self._files * 1000 + i for i in range(len(rows))], pa.int64()),
        }
        pq.write_table(pa.table(table), self.root / f"{self._files}.parquet")
        (self.root / f"{self._files}.parquet").rename(self.root / "in" / f"{self._files:05d}.parquet")
        self._files += 1

    def waiting(self) -> DataFrame:
        """The logs with their watermark."""
        stream = self.spark.readStream.schema(SCHEMA).parquet(str(self.root / "in"))
        return tailrace.accurate_watermark(stream, "at", host="host", **self.source)

    def start(self, **trigger: Any) -> StreamingQuery:  # noqa: ANN401 - as they are there
        """Starts the query."""
        writer = tailrace.write_windows(self.waiting(), self.out, "at", **self.options)
        writer = writer.option("checkpointLocation", str(self.root / "checkpoint"))
        self.query = writer.trigger(**trigger).start() if trigger else writer.start()
        return self.query

    def land(self, *rows: tuple[str, float | None]) -> dict[str, Any]:
        """Adds a file, runs a query until it has read it; returns what the query says of its windows."""
        self.add(*rows)
        query = self.start(availableNow=True)
        query.awaitTermination()
        found = [p["observedMetrics"] for p in query.recentProgress if p["observedMetrics"]]
        metrics: dict[str, Any] = found[-1]["tailrace.windows"]
        return metrics

    def land_again(self) -> None:
        """Runs the last micro-batch again, as after a kill before its commit."""
        undo(self.root / "checkpoint")
        self.start(availableNow=True).awaitTermination()

    def marker(self, second: int) -> dict[str, Any] | None:
        """The report in a window's directory, if it is closed."""
        file = self.out / name(second) / "_SUCCESS"
        return json.loads(file.read_text()) if file.exists() else None

    def rows(self, folder: str) -> int:
        """How many rows a directory has."""
        return sum(pq.read_metadata(f).num_rows for f in (self.out / folder).glob("**/*.parquet"))
