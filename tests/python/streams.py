"""The rows of the join's tests, a pair of streams of them, and the query that joins both.

Rows are `(id, key, second, note)`: `second` counts from noon, `key` may be None.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

import tailrace
from tailrace.testing.values import batch_frame

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame

    from tailrace.testing import StreamQuery, StreamTest

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
_COLUMNS: dict[str, pa.DataType] = {
    "id": pa.int64(),
    "key": pa.int64(),
    "ts": pa.timestamp("us", "UTC"),
    "note": pa.string(),
}
SCHEMA = pa.schema(_COLUMNS)


class Row(NamedTuple):
    """A row of either side."""

    id: int
    key: int | None
    second: int
    note: str = ""


def at(second: int) -> dt.datetime:
    return NOON + dt.timedelta(seconds=second)


def second(moment: dt.datetime) -> int:
    return round((moment - NOON).total_seconds())


def arrow(rows: Iterable[Row]) -> pa.Table:
    table = [{"id": r.id, "key": r.key, "ts": at(r.second), "note": r.note} for r in rows]
    return pa.Table.from_pylist(table, schema=SCHEMA)


def _values(row: Row) -> tuple[int, int | None, dt.datetime, str]:
    return row.id, row.key, at(row.second), row.note


class Streams:
    """The left and the right stream of a test, with columns of their own but for the key."""

    def __init__(self, test: StreamTest, delay: str = "10 seconds") -> None:
        self.test = test
        self._delay = delay
        self.sources = {
            side: test.source(f"{p}_id long, key long, {p}_ts timestamp, {p}_note string")
            for side, p in (("left", "l"), ("right", "r"))
        }

    def frame(self, side: str) -> DataFrame:
        return self.sources[side].frame.withWatermark(f"{side[0]}_ts", self._delay)

    def add(self, left: Iterable[Row] = (), right: Iterable[Row] = ()) -> None:
        for side, rows in (("left", left), ("right", right)):
            self.sources[side].add(*map(_values, rows))

    def batch_frames(self, *sides: Iterable[Row]) -> list[DataFrame]:
        """Batch DataFrames of rows, as both streams have them."""
        pairs = zip(self.sources.values(), sides, strict=True)
        return [batch_frame(self.test.spark, s.schema, list(map(_values, rows))) for s, rows in pairs]

    def join(self, **options: Any) -> DataFrame:  # noqa: ANN401 - the options of tailrace.join, as they are there
        return join(self.frame("left"), self.frame("right"), **options)

    def query(self, result: DataFrame, name: str = "query") -> StreamQuery:
        return self.test.query(result, name)


def join(left: DataFrame, right: DataFrame, **options: Any) -> DataFrame:  # noqa: ANN401
    given = {"on": "key", "left_time": "l_ts", "right_time": "r_ts", "after": "30 seconds"} | options
    return tailrace.join(left, right, **given)


def groups(rows: Iterable[dict[str, Any]]) -> list[tuple[int, list[int]]]:
    """(left id, right ids in the order of the group), sorted by left id."""
    return sorted((r["l_id"], [m["r_id"] for m in r["labels"]]) for r in rows)


def pairs(rows: Iterable[dict[str, Any]]) -> list[tuple[int, int]]:
    return sorted((r["l_id"], r["r_id"]) for r in rows)


def next_rows(query: StreamQuery) -> list[dict[str, Any]]:
    """The rows of what was added since the last call."""
    query.run()
    return query.new_rows()
