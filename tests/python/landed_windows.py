"""Folders as `write_windows` leaves them, made without Spark. `test_reading_landed.py` compares them."""

from __future__ import annotations

import datetime as dt
import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tailrace import TailraceWatermarkError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


def refusal(run: Callable[[], object]) -> TailraceWatermarkError:
    """The error by which a call is refused."""
    with pytest.raises(TailraceWatermarkError) as caught:
        run()
    return caught.value


class LandedWindows:
    """A folder of windows of an hour, from noon on. Each row has an `id` of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ids: list[list[int]] = []
        path.mkdir(parents=True, exist_ok=True)

    def start(self, hour: int) -> dt.datetime:
        return NOON + dt.timedelta(hours=hour)

    def directory(self, hour: int) -> Path:
        return self.path / self.start(hour).strftime("window_start=%Y%m%dT%H%M%SZ")

    def land(self, *files: int, group: int = 3) -> list[int]:
        """Adds a complete window.

        Args:
            files: how many rows each of its files has.
            group: the rows of a row group.
        """
        hour = len(self.ids)
        self.directory(hour).mkdir(exist_ok=True)
        first = sum(map(len, self.ids))
        ids = list(range(first, first + sum(files)))
        self.ids.append(ids)
        at = 0
        for number, rows in enumerate(files):
            self.write(
                self.directory(hour) / f"part-{number:05d}-7-c0ffee.c000.snappy.parquet",
                ids[at : at + rows],
                group,
            )
            at += rows
        self.mark(hour, len(ids))
        return ids

    def write(self, file: Path, ids: Sequence[int], group: int = 3) -> None:
        """Writes a file of rows."""
        file.parent.mkdir(parents=True, exist_ok=True)
        table = {
            "id": pa.array(ids, pa.int64()),
            "label": pa.array([one % 3 == 0 for one in ids], pa.bool_()),
            "weight": pa.array([1.0 + one % 2 for one in ids], pa.float64()),
            "name": pa.array([f"n{one}" for one in ids], pa.string()),
        }
        pq.write_table(pa.table(table), file, row_group_size=group)

    def mark(self, hour: int, rows: int, low: int | None = None) -> None:
        """Writes the completeness report of a window, which a low watermark of the hour `low` has closed."""
        closed = hour + 1 if low is None else low
        start, end, by = (f"{self.start(one):%Y-%m-%dT%H:%M:%SZ}" for one in (hour, hour + 1, closed))
        self.directory(hour).mkdir(exist_ok=True)
        report = {
            "format": 2,
            "window_start": start,
            "window_end": end,
            "rows": rows,
            "expected": 2,
            "passed": 2,
            "missing": [],
            "completeness": "1",
            "low_watermark": by,
            "closed_at": end,
            "sources": [
                {
                    "source": "watermark",
                    "completeness": "1",
                    "expected": 2,
                    "passed": 2,
                    "roster_version": None,
                }
            ],
        }
        (self.directory(hour) / "_SUCCESS").write_text(json.dumps(report) + "\n")
