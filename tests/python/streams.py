"""A pair of streams that tests feed by hand, and the query that joins them.

Rows are `(id, key, second, note)`: `second` counts from noon, `key` may be None. Each `run` is one
micro-batch with data and, where the watermark moves, one without.
"""

from __future__ import annotations

import datetime as dt
import itertools
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import pyarrow as pa

import tailrace
from arrivals import arrive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path
    from types import TracebackType

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
_COLUMNS: dict[str, pa.DataType] = {
    "id": pa.int64(),
    "key": pa.int64(),
    "ts": pa.timestamp("us", "UTC"),
    "note": pa.string(),
}
SCHEMA = pa.schema(_COLUMNS)
_SPARK_SCHEMA = "id long, key long, ts timestamp, note string"


class Row(NamedTuple):
    """A row of either side."""

    id: int
    key: int | None
    second: int
    note: str = ""


def at(second: int) -> dt.datetime:
    return NOON + dt.timedelta(seconds=second)


def second(moment: dt.datetime) -> int:
    """Spark gives timestamps without a zone, in the local one."""
    return round((moment.astimezone(dt.UTC) - NOON).total_seconds())


def arrow(rows: Iterable[Row]) -> pa.Table:
    table = [{"id": r.id, "key": r.key, "ts": at(r.second), "note": r.note} for r in rows]
    return pa.Table.from_pylist(table, schema=SCHEMA)


class Streams:
    """Two folders of files as streams; everything of a query's checkpoint and output under one directory."""

    def __init__(self, spark: SparkSession, root: Path, delay: str = "10 seconds") -> None:
        self.spark = spark
        self.root = root
        self.delay = delay
        self._numbers = itertools.count()
        for name in ("left", "right"):
            (root / name).mkdir()

    def frame(self, side: str) -> DataFrame:
        stream = self.spark.readStream.schema(_SPARK_SCHEMA).parquet(str(self.root / side))
        prefix = side[0]
        renamed = stream.toDF(f"{prefix}_id", "key", f"{prefix}_ts", f"{prefix}_note")
        return renamed.withWatermark(f"{prefix}_ts", self.delay)

    def batch_frame(self, side: str) -> DataFrame:
        prefix = side[0]
        table = self.spark.read.schema(_SPARK_SCHEMA).parquet(str(self.root / side))
        return table.toDF(f"{prefix}_id", "key", f"{prefix}_ts", f"{prefix}_note")

    def add(self, left: Iterable[Row] = (), right: Iterable[Row] = ()) -> None:
        for side, rows in (("left", left), ("right", right)):
            table = arrow(rows)
            if table.num_rows:
                self.write(side, table)

    def write(self, side: str, table: pa.Table) -> None:
        arrive(self.root / side, next(self._numbers), table)

    def join(self, **options: Any) -> DataFrame:  # noqa: ANN401 - the options of tailrace.join, as they are there
        return join(self.frame("left"), self.frame("right"), **options)

    def query(self, result: DataFrame, name: str = "query") -> Query:
        return Query(self.spark, result, self.root / name)


def join(left: DataFrame, right: DataFrame, **options: Any) -> DataFrame:  # noqa: ANN401
    given = {"on": "key", "left_time": "l_ts", "right_time": "r_ts", "after": "30 seconds"} | options
    return tailrace.join(left, right, **given)


class Query:
    """A running query with a file sink; `run` takes what has been added, `rows` is all that came out."""

    def __init__(self, spark: SparkSession, result: DataFrame, root: Path) -> None:
        self.spark = spark
        self.result = result
        self.checkpoint = root / "checkpoint"
        self.out = root / "out"
        self.query = self._start()

    def _start(self) -> StreamingQuery:
        writer = self.result.writeStream.format("parquet").option("path", str(self.out))
        return writer.option("checkpointLocation", str(self.checkpoint)).outputMode("append").start()

    def restart(self, result: DataFrame | None = None) -> None:
        self.query.stop()
        self.result = self.result if result is None else result
        self.query = self._start()

    def rows(self) -> list[dict[str, Any]]:
        if not (self.out / "_spark_metadata").exists():
            return []
        return [
            r.asDict(recursive=True)
            for r in self.spark.read.schema(self.result.schema).parquet(str(self.out)).collect()
        ]

    def run(self) -> None:
        self.query.processAllAvailable()

    def operators(self) -> list[dict[str, Any]]:
        """The join's report of each batch of this run."""
        # A query that is idle reports, too: at its start, and its last batch once more after ten seconds.
        batches = {
            p["batchId"]: p["stateOperators"] for p in self.query.recentProgress if p["stateOperators"]
        }
        return [operators[0] for operators in batches.values()]

    def total(self, metric: str) -> int:
        """A custom metric of the join, summed over the batches of this run."""
        return sum(operator["customMetrics"][metric] for operator in self.operators())

    def state(self) -> list[dict[str, Any]]:
        """The buffered rows, as Spark's own state reader sees them."""
        reader = self.spark.read.format("statestore")
        return [r.asDict(recursive=True) for r in reader.load(str(self.checkpoint)).collect()]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.query.stop()


def groups(rows: Iterable[dict[str, Any]]) -> list[tuple[int, list[int]]]:
    """(left id, right ids in the order of the group), sorted by left id."""
    return sorted((r["l_id"], [m["r_id"] for m in r["labels"]]) for r in rows)


def pairs(rows: Iterable[dict[str, Any]]) -> list[tuple[int, int]]:
    return sorted((r["l_id"], r["r_id"]) for r in rows)


def new_rows(query: Query, seen: list[dict[str, Any]], view: Callable[[list[dict[str, Any]]], Any]) -> Any:  # noqa: ANN401
    """The rows that came out since the last call; the caller keeps `seen`."""
    query.run()
    now = query.rows()
    fresh = list(now)
    for row in seen:
        fresh.remove(row)
    seen[:] = now
    return view(fresh)
