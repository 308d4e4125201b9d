"""Two partitioned streams that tests feed by hand, the query that joins them, and what has to come out of it.

Rows are `(id, partition, second)`: `second` counts from noon. Where a micro-batch lets left rows go, one
without data follows.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

import tailrace
from arrivals import arrive
from streams import at, next_rows, second

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Iterable
    from pathlib import Path

    from pyspark.sql import DataFrame

    from tailrace.testing import StreamQuery, StreamTest

SCHEMA = "id long, partition int, created timestamp"
NEVER = -(10**9)


class Row(NamedTuple):
    """A row of either side."""

    id: int | None
    partition: int
    second: int | None


class Synced:
    """The left and the right stream of a test, and their join."""

    def __init__(self, test: StreamTest) -> None:
        self.test = test
        self._sources = {side: test.source(SCHEMA) for side in ("left", "right")}

    def add(self, left: Iterable[Row] = (), right: Iterable[Row] = ()) -> None:
        for side, rows in (("left", left), ("right", right)):
            self._sources[side].add(*((r.id, r.partition, time(r)) for r in rows))

    def frame(self, side: str) -> DataFrame:
        return self._sources[side].frame

    def join(self, *, sides: Iterable[DataFrame] | None = None, **options: Any) -> DataFrame:  # noqa: ANN401
        given = {"on": "id", "left_time": "created", "right_time": "created"}
        given |= {"window": "60 seconds", "sync_delay": "5 seconds"}
        left, right = sides or map(self.frame, ("left", "right"))
        return tailrace.sync_join(left, right, **given | options)

    def query(self, name: str = "query", **options: Any) -> StreamQuery:  # noqa: ANN401
        return self.test.query(self.join(**options), name)


def time(row: Row) -> dt.datetime | None:
    return None if row.second is None else at(row.second)


def write(folder: Path, number: int, rows: Iterable[Row]) -> None:
    table = [{"id": r.id, "partition": r.partition, "created": time(r)} for r in rows]
    if not table:
        return
    types = {"id": pa.int64(), "partition": pa.int32(), "created": pa.timestamp("us", "UTC")}
    arrive(folder, number, pa.Table.from_pylist(table, schema=pa.schema(types)))


def shown(row: dict[str, Any]) -> tuple[Any, ...]:
    """(id, left second, right second), None where there is none."""
    left, right = row["created"], row["created_right"]
    return (row["id"], None if left is None else second(left), None if right is None else second(right))


class Model:
    """The output that the synced join must give, batch by batch, computed in plain Python."""

    def __init__(self, sync_delay: int = 5, window: int = 60, *, emit: bool = False) -> None:
        self._emit = emit
        self._delay = sync_delay
        self._window = window
        # A right row may be this far after its left row.
        self._reach = min(window, sync_delay)
        self._latest: dict[str, dict[int, int]] = {"left": {}, "right": {}}
        self._release = self._left_low = NEVER
        self._left: list[Row] = []
        self._right: list[Row] = []
        self.unmatched_right = 0
        self.duplicates = 0

    def run(self, left: Iterable[Row], right: Iterable[Row]) -> Counter[tuple[Any, ...]]:
        """The output of a batch with these rows, and of the batches without data that follow."""
        out = self._batch(list(left), list(right))
        while any(r.second is not None and r.second < self._release for r in self._left) or any(
            self._is_over(r) for r in self._right
        ):
            out += self._batch([], [])
        return out

    def _is_over(self, row: Row) -> bool:
        # Left rows wait from the release time on, so that counts as well.
        low = min(self._release, self._left_low) - self._reach
        return row.second is not None and row.second + self._window < low

    def _joins(self, left: int, right: int) -> bool:
        return -self._window <= right - left <= self._reach

    def _batch(self, left: list[Row], right: list[Row]) -> Counter[tuple[Any, ...]]:
        out: Counter[tuple[Any, ...]] = Counter()
        self._right += [r for r in right if r.id is not None and r.second is not None]
        waiting = self._left + left
        self._left = []
        released: dict[int, list[Row]] = {}
        for row in waiting:
            if row.id is None or row.second is None:
                out[row.id, row.second, None] += 1
            elif row.second < self._release:
                released.setdefault(row.id, []).append(row)
            else:
                self._left.append(row)
        for key, rows in released.items():
            for n, row in enumerate(sorted(rows, key=lambda r: r.second or 0)):
                second = row.second or 0
                matches = sorted(
                    (r for r in self._right if r.id == key and self._joins(second, r.second or 0)),
                    key=lambda r: r.second or 0,
                )
                out[key, second, matches[0].second if matches else None] += 1
                self.duplicates += len(matches[1:]) if matches else min(n, 1)
                self._right = [r for r in self._right if r not in matches]
        for row in filter(self._is_over, self._right):
            self.unmatched_right += 1
            if self._emit:
                out[row.id, None, row.second] += 1
        self._right = [r for r in self._right if not self._is_over(r)]
        self._look("left", left)
        self._look("right", right)
        return out

    def _look(self, side: str, rows: list[Row]) -> None:
        latest = self._latest[side]
        for row in rows:
            if row.second is not None:
                latest[row.partition] = max(latest.get(row.partition, NEVER), row.second)
        if latest and side == "right":
            self._release = max(self._release, min(latest.values()) - self._delay)
        elif latest:
            self._left_low = max(self._left_low, min(latest.values()))


def new(query: StreamQuery) -> list[tuple[Any, ...]]:
    """The rows of what was added since the last call."""
    return sorted(map(shown, next_rows(query)), key=repr)
