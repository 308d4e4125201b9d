"""The demo's two streams: impressions and user actions, as Parquet slices in order of arrival."""

# The types of pyarrow are incomplete.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportCallIssue=false, reportArgumentType=false

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tailrace.demo.query import ENGAGEMENTS, IMPRESSIONS

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

    Longs = npt.NDArray[np.int64]

SPAN_US = 4 * 3_600_000_000
EPOCH_US = 1_700_000_000_000_000
# A row arrives at most this long after its event, so with the watermark's delay of 2 minutes none is late.
MAX_LAG_US = 100_000_000
MEAN_LAG_US = 20_000_000
CLOSING_ROWS = 2  # of both sides together
CLOSING_GAP_US = 6 * 3_600_000_000
MATCHED_SHARE = 0.3
MEAN_LABEL_DELAY_US = 360_000_000


@dataclass(frozen=True)
class Side:
    """One stream in order of arrival; arrays of one length, one value per row.

    Attributes:
        id: unique in its side.
        user: first key column.
        item: second key column.
        time_us: event time, microseconds since 1970 UTC.
    """

    id: Longs
    user: Longs
    item: Longs
    time_us: Longs

    def __len__(self) -> int:
        return len(self.id)


@dataclass(frozen=True)
class Workload:
    """Both streams, without the closing rows, and the directories of their files."""

    impressions: Side
    engagements: Side
    impressions_dir: Path
    engagements_dir: Path


def generate(directory: Path, rows: int, slices: int, seed: int = 7) -> Workload:
    """Makes the streams and writes each as slices + 1 parquet files into a directory of its own.

    Slice i of both sides covers the same stretch of arrival time, and the files' modification times follow
    that order, so a file source that takes one file per trigger replays the streams. The last file of each
    side holds one row, hours later than all others: it moves the watermark past every window, so that all
    groups are emitted. That closing impression's own window stays open, and it is no part of the result.

    Args:
        directory: an existing directory.
        rows: impressions to make; 3 in 10 have engagements, 1.5 on average, and there are as many again as a
            twentieth of the impressions that belong to none.
        slices: files a side, before the closing one.
        seed: the random numbers' seed; the same seed makes the same streams.
    """
    rng = np.random.default_rng(seed)
    served = np.sort(rng.integers(0, SPAN_US, rows)) + EPOCH_US
    user = rng.integers(0, max(1, rows // 20), rows)
    item = rng.integers(0, 50, rows)
    labels = np.where(rng.random(rows) < MATCHED_SHARE, 1 + rng.poisson(0.5, rows), 0)
    delay = rng.exponential(MEAN_LABEL_DELAY_US, int(labels.sum())).astype(np.int64)
    orphans = rows // 20
    impressions = _in_order_of_arrival(rng, user, item, served)
    engagements = _in_order_of_arrival(
        rng,
        np.concatenate([np.repeat(user, labels), rng.integers(rows, 2 * rows, orphans)]),
        np.concatenate([np.repeat(item, labels), rng.integers(0, 50, orphans)]),
        np.concatenate([np.repeat(served, labels) + delay, rng.integers(0, SPAN_US, orphans) + EPOCH_US]),
    )
    workload = Workload(impressions.side, engagements.side, directory / IMPRESSIONS, directory / ENGAGEMENTS)
    closing = Side(
        *(np.array([v], dtype=np.int64) for v in (-1, -1, -1, EPOCH_US + SPAN_US + CLOSING_GAP_US))
    )
    for arrivals, path, table in (
        (impressions, workload.impressions_dir, _impressions_table),
        (engagements, workload.engagements_dir, _engagements_table),
    ):
        whole = table(arrivals.side, rng)
        edges = [0, *_edges(arrivals.arrival_us, slices), len(arrivals.side)]
        parts = [whole.slice(start, end - start) for start, end in pairwise(edges)]
        _write(path, [*parts, table(closing, rng)])
    return workload


@dataclass(frozen=True)
class _Arrivals:
    side: Side
    arrival_us: Longs


def _in_order_of_arrival(rng: np.random.Generator, user: Longs, item: Longs, time_us: Longs) -> _Arrivals:
    lag = np.minimum(rng.exponential(MEAN_LAG_US, len(user)), MAX_LAG_US).astype(np.int64)
    order = np.argsort(time_us + lag, kind="stable")
    ids = np.arange(len(user), dtype=np.int64)
    return _Arrivals(Side(ids, user[order], item[order], time_us[order]), (time_us + lag)[order])


def _edges(arrival_us: Longs, slices: int) -> list[int]:
    cuts = np.linspace(EPOCH_US, EPOCH_US + SPAN_US, slices + 1)[1:-1]
    return [int(edge) for edge in np.searchsorted(arrival_us, cuts)]


def _impressions_table(side: Side, rng: np.random.Generator) -> pa.Table:
    return pa.table(
        {
            "impression_id": side.id,
            "user_id": side.user,
            "item_id": side.item,
            "served_at": pa.array(side.time_us, pa.timestamp("us", "UTC")),
            "position": rng.integers(1, 21, len(side)).astype(np.int32),
            "price": np.round(rng.gamma(2.0, 15.0, len(side)), 2),
            "model": _choice(rng, ["ranker-a", "ranker-b"], len(side)),
        }
    )


def _engagements_table(side: Side, rng: np.random.Generator) -> pa.Table:
    return pa.table(
        {
            "engagement_id": side.id,
            "user_id": side.user,
            "item_id": side.item,
            "engaged_at": pa.array(side.time_us, pa.timestamp("us", "UTC")),
            "action": _choice(rng, ["click", "like", "buy"], len(side)),
            "dwell_ms": rng.integers(100, 60_000, len(side)).astype(np.int32),
        }
    )


def _choice(rng: np.random.Generator, names: list[str], count: int) -> npt.NDArray[np.str_]:
    return np.array(names)[rng.integers(0, len(names), count)]


def _write(directory: Path, parts: list[pa.Table]) -> None:
    directory.mkdir()
    for number, part in enumerate(parts):
        path = directory / f"{number:05d}.parquet"
        pq.write_table(part, path)
        # The file source takes the oldest file first.
        os.utime(path, (1_600_000_000 + number, 1_600_000_000 + number))
