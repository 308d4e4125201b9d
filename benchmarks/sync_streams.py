"""Two streams for the synced join, read from partitions one of which lags, and what is true of them.

Left rows are spread evenly over event time. Each has, with the probability `MATCHED`, one right row, made up
to `DISTANCE_S` later. Both are read in slices of `slice_s` seconds of arrival, one file of each side a slice,
and jump back by up to `JUMP_S` within their partition. The last right partition lags by `LAG_S`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

    Longs = npt.NDArray[np.int64]

SCHEMA = "id long, created timestamp, partition int, value binary"
PARTITIONS = 8
MATCHED = 0.9
DISTANCE_S = 1
JUMP_S = 4
LAG_S = 60
ROW_BYTES = 120  # of the payload: id, time, partition, value
_VALUE_BYTES = 100
_EPOCH_US = 1_763_700_000_000_000
_S = 1_000_000


@dataclass(frozen=True)
class Streams:
    """What has been written.

    Attributes:
        slices: files a side.
        slice_s: seconds of arrival that a file has.
        left: event time of each left row, by its id, in microseconds.
        matched: whether a left row has a right row, by its id.
        complete: the slice with which all rows of an id have been read: its left row, and its right row if it
            has one.
        slowest: after each slice, how far the slowest right partition has been read, in microseconds.
        rows: of both sides.
    """

    slices: int
    slice_s: float
    left: Longs
    matched: npt.NDArray[np.bool_]
    complete: Longs
    slowest: list[int]
    rows: int

    def released(self, sync_delay_s: float) -> Longs:
        """The ids of left rows that are due when all has been read."""
        found: Longs = np.flatnonzero(self.left < self.slowest[-1] - int(sync_delay_s * _S))
        return found


def write(root: Path, left_rows: int, slices: int, seconds: float) -> Streams:
    """Writes `root`/left and `root`/right: the same parameters make the same files."""
    rng = np.random.default_rng(11)
    ids = np.arange(left_rows, dtype=np.int64)
    span = int(seconds * _S)
    left = _EPOCH_US + ids * span // left_rows
    matched = rng.random(left_rows) < MATCHED
    right_ids = ids[matched]
    right = left[matched] + rng.integers(0, DISTANCE_S * _S, len(right_ids))
    # A key is in a partition of each side that has nothing to do with the other's.
    left_partition = rng.integers(0, PARTITIONS, left_rows)
    right_partition = rng.integers(0, PARTITIONS, len(right_ids))
    lag = np.where(right_partition == PARTITIONS - 1, LAG_S * _S, 0)
    # The streams have run before: each right partition has been seen, in the first slice, as far as it lags.
    seen = np.arange(PARTITIONS)
    right_ids = np.concatenate([-1 - seen, right_ids])
    right = np.concatenate([np.full(PARTITIONS, _EPOCH_US - LAG_S * _S), right])
    right_partition = np.concatenate([seen, right_partition])
    lag = np.concatenate([np.full(PARTITIONS, LAG_S * _S), lag])
    slice_us = span // slices
    last = _EPOCH_US + span + (DISTANCE_S + JUMP_S + LAG_S) * _S
    total = -(-(last - _EPOCH_US) // slice_us)
    slowest = []
    latest = np.full(PARTITIONS, np.iinfo(np.int64).min)
    complete = np.zeros(left_rows, dtype=np.int64)
    sides = {
        "left": _arrivals(rng, ids, left, left_partition, np.zeros_like(left)),
        "right": _arrivals(rng, right_ids, right, right_partition, lag),
    }
    for i in range(total):
        for name, (key, time, partition, arrival) in sides.items():
            begin, end = np.searchsorted(arrival, [_EPOCH_US + i * slice_us, _EPOCH_US + (i + 1) * slice_us])
            part = slice(begin, end)
            _write(root / name / f"{i:05d}.parquet", rng, key[part], time[part], partition[part], i)
            np.maximum.at(complete, key[part][key[part] >= 0], i)
            if name == "right":
                np.maximum.at(latest, partition[part], time[part])
        slowest.append(int(latest.min()))
    return Streams(total, slice_us / _S, left, matched, complete, slowest, left_rows + len(right_ids))


def _arrivals(
    rng: np.random.Generator, key: Longs, time: Longs, partition: Longs, lag: Longs
) -> tuple[Longs, Longs, Longs, Longs]:
    """In the order of arrival, which isn't that of time."""
    arrival = time + lag + rng.integers(0, JUMP_S * _S, len(time))
    order = np.argsort(arrival, kind="stable")
    return key[order], time[order], partition[order], arrival[order]


def _write(
    path: Path, rng: np.random.Generator, key: Longs, time: Longs, partition: Longs, number: int
) -> None:
    path.parent.mkdir(exist_ok=True)
    values = rng.bytes(len(key) * _VALUE_BYTES)
    value = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(_VALUE_BYTES), len(key), [None, pa.py_buffer(values)]
    )
    table = pa.table(
        {
            "id": key,
            "created": pa.array(time, pa.timestamp("us", "UTC")),
            "partition": partition.astype(np.int32),
            "value": value.cast(pa.binary()),
        }
    )
    pq.write_table(table, path)
    os.utime(path, (1_600_000_000 + number, 1_600_000_000 + number))
