"""A query on logs of its own that reports to a watermark server, for tests of several of them."""

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

    from watermark_servers import ServerProcess

SCHEMA = "host string, at timestamp, id long"
NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
_PATIENCE = 30


class Job:
    """A query on a folder of logs, with the server and nothing else that it could be told apart by."""

    def __init__(self, spark: SparkSession, root: Path, server: ServerProcess, **source: Any) -> None:  # noqa: ANN401
        self.spark = spark
        self.root = root
        self.logs = root / "in"
        self.at: dict[str, Any] = {"server": server.url, "app": "app"}
        self.source = {"completeness": "100%", **source}
        self.query: StreamingQuery | None = None
        self._files = 0
        self.logs.mkdir(parents=True)

    def add(self, *rows: tuple[str, float]) -> None:
        """Adds a file of rows: hosts, and minutes from noon."""
        table = {
            "host": pa.array([host for host, _ in rows], pa.string()),
            "at": pa.array([NOON + dt.timedelta(minutes=m) for _, m in rows], pa.timestamp("us", "UTC")),
            "id": pa.array([self._files * 1000 + i for i in range(len(rows))], pa.int64()),
        }
        pq.write_table(pa.table(table), self.root / "new.parquet")
        (self.root / "new.parquet").rename(self.logs / f"{self._files:05d}.parquet")
        self._files += 1

    def waiting(self) -> DataFrame:
        """The logs with their watermark."""
        stream = self.spark.readStream.schema(SCHEMA).parquet(str(self.logs))
        return tailrace.accurate_watermark(stream, "at", host="host", **self.at, **self.source)

    def land(self) -> StreamingQuery:
        """Starts to land windows of ten minutes."""
        writer = tailrace.write_windows(
            self.waiting(), self.root / "out", "at", window="10 minutes", **self.at
        )
        self.query = writer.option("checkpointLocation", str(self.root / "checkpoint")).start()
        return self.query

    def unique(self, checkpoint: str = "checkpoint") -> StreamingQuery:
        """Starts to write rows but those that have come already; late ones are dropped."""
        rows = self.waiting().dropDuplicatesWithinWatermark(["id"]).select("id")
        writer = rows.writeStream.format("parquet").option("path", str(self.root / f"{checkpoint}-out"))
        self.query = writer.option("checkpointLocation", str(self.root / checkpoint)).start()
        return self.query

    def step(self, *rows: tuple[str, float]) -> None:
        """Adds a file, and waits until it has been read."""
        assert self.query is not None
        self.add(*rows)
        self.query.processAllAvailable()

    def written(self, checkpoint: str = "checkpoint") -> int:
        """How many rows have been written, as the table of files says."""
        return self.spark.read.parquet(str(self.root / f"{checkpoint}-out")).count()

    def marked(self) -> dict[int, dict[str, Any]]:
        """The windows that are closed, by the minute that they begin at, and their reports."""
        reports = [json.loads(f.read_text()) for f in (self.root / "out").glob("window_start=*/_SUCCESS")]
        begin = [dt.datetime.fromisoformat(r["window_start"]) for r in reports]
        return {round((b - NOON).total_seconds() / 60): r for b, r in zip(begin, reports, strict=True)}

    def rows(self, folder: str = "window_start=*") -> int:
        """How many rows have landed in directories."""
        files = (self.root / "out").glob(f"{folder}/**/*.parquet")
        return sum(pq.read_metadata(file).num_rows for file in files)
