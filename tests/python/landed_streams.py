"""Two streams with their arrivals: as rows, as landed frames, and as a run that gets them by micro-batch."""

from __future__ import annotations

import datetime as dt
import os
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

import tailrace
from kept_batches import KeptBatches

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

NOON = 1_767_268_800
TRIGGER = 60
_TYPES = {
    "key": pa.int64(),
    "ts": pa.timestamp("us", "UTC"),
    "arrived": pa.timestamp("us", "UTC"),
    "seq": pa.int64(),
    "note": pa.string(),
}


class Event(NamedTuple):
    """A row of either side; seconds since noon."""

    key: int | None
    second: float
    arrived: float
    seq: int
    note: str

    @property
    def tick(self) -> int:
        return int((NOON + self.arrived) // TRIGGER)


def events(rng: random.Random, count: int, minutes: int, note: int) -> list[Event]:
    """Rows over so many minutes, most of them seconds late, one in ten minutes late. In order of arrival."""
    found = []
    for _ in range(count):
        second = rng.uniform(0, minutes * 60)
        lag = rng.expovariate(1 / 200) if rng.random() < 0.1 else rng.uniform(0, 5)
        key = None if rng.random() < 0.01 else rng.randrange(40)
        found.append(
            (
                key,
                round(second, 6),
                round(second + lag, 6),
                rng.randbytes(note // 2).hex()[: rng.randrange(note)],
            )
        )
    found.sort(key=lambda row: row[2])
    # All arrive within the minutes, so that each micro-batch has rows of both sides.
    kept = [row for row in found if row[2] < minutes * 60]
    return [Event(k, second, arrived, i, text) for i, (k, second, arrived, text) in enumerate(kept)]


def table(side: str, rows: Sequence[Event]) -> pa.Table:
    def at(second: float) -> dt.datetime:
        return dt.datetime.fromtimestamp(NOON, dt.UTC) + dt.timedelta(seconds=second)

    values = [(row.key, at(row.second), at(row.arrived), row.seq, row.note) for row in rows]
    names = ["key" if name == "key" else f"{side[0]}_{name}" for name in _TYPES]
    columns = zip(*values, strict=True) if values else [[]] * len(names)
    arrays = [pa.array(list(c), kind) for c, kind in zip(columns, _TYPES.values(), strict=True)]
    return pa.table(arrays, names)


def land(folder: Path, side: str, rows: Sequence[Event]) -> str:
    """A file for each micro-batch, in their order, even for one without rows of this side."""
    directory = folder / side
    directory.mkdir()
    for i, tick in enumerate(range(rows[0].tick, rows[-1].tick + 1)):
        file = directory / f"{i:05}.parquet"
        pq.write_table(table(side, [row for row in rows if row.tick == tick]), file)
        os.utime(file, (NOON + i, NOON + i))
    return str(directory)


class Measured(NamedTuple):
    """What a run has done: the sums and the most of its metrics, and when rows came out."""

    sums: dict[str, int]
    most: dict[str, int]
    latencies: list[float]


def run(
    spark: SparkSession,
    folder: Path,
    frames: dict[str, DataFrame],
    delay: str,
    first: int,
    **options: Any,  # noqa: ANN401 - the options of tailrace.join, as they are there
) -> Measured:
    """Runs the join over files that were landed, one of each side a micro-batch."""
    sides = [
        spark.readStream.schema(frame.schema)
        .option("maxFilesPerTrigger", 1)
        .parquet(str(folder / side))
        .withWatermark(f"{side[0]}_ts", delay)
        for side, frame in frames.items()
    ]
    joined = tailrace.join(*sides, on="key", left_time="l_ts", right_time="r_ts", **options)
    kept = KeptBatches(folder / "kept")
    query = (
        joined.selectExpr("unix_micros(l_ts) / 1e6 AS second")
        .writeStream.foreachBatch(kept)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return _measured(
        query,
        [(first + batch + 1) * TRIGGER - row["second"] for batch, rows in kept.batches() for row in rows],
    )


def _measured(query: StreamingQuery, latencies: list[float]) -> Measured:
    sums: dict[str, int] = {}
    most: dict[str, int] = {}
    for progress in query.recentProgress:
        (state,) = progress["stateOperators"]
        metrics = dict(state["customMetrics"])
        values = metrics | {
            "rows": state["numRowsTotal"],
            "bytes": metrics["leftStoreBytes"] + metrics["rightStoreBytes"],
        }
        for name, value in values.items():
            sums[name] = sums.get(name, 0) + value
            most[name] = max(most.get(name, 0), value)
    return Measured(sums, most, latencies)
