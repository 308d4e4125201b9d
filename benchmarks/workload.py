"""The data of the feature-label workload: two streams, of impressions (left) and of engagements (right).

Both sides have the columns of `SCHEMA`. Rows are in the order of their arrival, not of their event time. File
number i of both sides covers the same stretch of arrival time, and the files' modification times follow that
order, so that a file source with `maxFilesPerTrigger=1` replays the two streams side by side. A row arrives
`max_lag_ms` after its event time at the latest: with a watermark delay above that, none is late. Only the
right rows of `late_share` are, and the left rows of `late_left_share`.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

    Longs = npt.NDArray[np.int64]

SCHEMA = "id long, key long, ts timestamp, value binary"
EPOCH_MS = 1_700_000_000_000

_LAYOUT = 1  # raised whenever the same parameters make other data
_FIXED_BYTES = 24  # id, key and ts: eight bytes each
_FIRST_MTIME = 1_600_000_000


@dataclass(frozen=True)
class Workload:
    """What the data are made of.

    Attributes:
        left: left rows; the right rows follow from `match_share`, plus one orphan per 20 left rows.
        slices: files per side, each of which is one micro-batch.
        hours: event time that the left rows are spread over, evenly.
        rows_per_key: left rows per key, on average.
        zipf: exponent of the keys' skew, above 1; 0 for none.
        match_share: share of the left rows with at least one label.
        label_delay_ms: mean time from a left row to each of its labels.
        lag_ms: mean time from an event to its arrival.
        max_lag_ms: the longest such time.
        late_share: share of the right rows that arrive later than that.
        late_left_share: the same of the left rows.
        late_ms: by how much at the most.
        value_bytes: length of each row's value, random bytes.
        row_group: rows of a file's row group at most. A file is read by as many tasks as it has groups.
        seed: of the random numbers.
    """

    left: int = 400_000
    slices: int = 20
    hours: float = 4.0
    rows_per_key: int = 2
    zipf: float = 0.0
    match_share: float = 0.3
    label_delay_ms: float = 360_000.0
    lag_ms: float = 20_000.0
    max_lag_ms: float = 100_000.0
    late_share: float = 0.0
    late_left_share: float = 0.0
    late_ms: float = 0.0
    value_bytes: int = 100
    row_group: int = 1 << 20
    seed: int = 7

    @property
    def row_bytes(self) -> int:
        """A row's payload in memory: three longs and the value. What "input bytes" means everywhere here."""
        return _FIXED_BYTES + self.value_bytes


@dataclass(frozen=True)
class Streams:
    """Generated data: `path`/left/*.parquet and `path`/right/*.parquet, with their numbers of rows."""

    path: Path
    left_rows: int
    right_rows: int

    @property
    def rows(self) -> int:
        """Rows of both sides."""
        return self.left_rows + self.right_rows


def prepare(workload: Workload, work: Path) -> Streams:
    """Returns the workload's data, generated now or by an earlier call with the same parameters.

    Args:
        workload: what the data are made of.
        work: the directory that keeps the data of all workloads.
    """
    text = json.dumps({"layout": _LAYOUT, **asdict(workload)}, sort_keys=True)
    path = work / f"data-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    if not path.exists():
        unfinished = path.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        _generate(workload, unfinished)
        (unfinished / "workload.json").write_text(text)
        unfinished.rename(path)
    return Streams(path, _count(path / "left"), _count(path / "right"))


def _count(side: Path) -> int:
    return sum(pq.read_metadata(file).num_rows for file in sorted(side.glob("*.parquet")))


def _generate(workload: Workload, path: Path) -> None:
    rng = np.random.default_rng(workload.seed)
    span = int(workload.hours * 3_600_000)
    n = workload.left
    keys = max(1, n // workload.rows_per_key)
    left_ts = np.sort(rng.integers(0, span, n)) + EPOCH_MS
    left_key = rng.zipf(workload.zipf, n) % keys if workload.zipf else rng.integers(0, keys, n)
    labels = np.where(rng.random(n) < workload.match_share, 1 + rng.poisson(0.5, n), 0)
    delays = rng.exponential(workload.label_delay_ms, int(labels.sum())).astype(np.int64)
    orphans = n // 20
    right_key = np.concatenate([np.repeat(left_key, labels), rng.integers(keys, 2 * keys, orphans)])
    right_ts = np.concatenate(
        [np.repeat(left_ts, labels) + delays, rng.integers(0, span, orphans) + EPOCH_MS]
    )
    _write(workload, rng, path / "left", left_key, left_ts, late_share=workload.late_left_share)
    _write(workload, rng, path / "right", right_key, right_ts, late_share=workload.late_share)


def _write(
    workload: Workload, rng: np.random.Generator, path: Path, key: Longs, ts: Longs, *, late_share: float
) -> None:
    n = len(key)
    lag = np.minimum(rng.exponential(workload.lag_ms, n), workload.max_lag_ms).astype(np.int64)
    if late_share:
        late = rng.random(n) < late_share
        lag += np.where(late, workload.max_lag_ms + rng.random(n) * workload.late_ms, 0).astype(np.int64)
    order = np.argsort(ts + lag, kind="stable")
    end = EPOCH_MS + int(workload.hours * 3_600_000)
    inner = np.linspace(EPOCH_MS, end, workload.slices + 1)[1:-1]
    edges = [0, *np.searchsorted((ts + lag)[order], inner).tolist(), n]
    values = pa.py_buffer(rng.bytes(workload.value_bytes * n))
    table = pa.table(
        {
            "id": pa.array(np.arange(n, dtype=np.int64)),
            "key": pa.array(key[order].astype(np.int64)),
            "ts": pa.array(ts[order] * 1000, pa.timestamp("us", "UTC")),
            "value": pa.Array.from_buffers(pa.binary(workload.value_bytes), n, [None, values]).cast(
                pa.binary()
            ),
        }
    )
    path.mkdir()
    for i in range(workload.slices):
        file = path / f"{i:05d}.parquet"
        pq.write_table(
            table.slice(edges[i], edges[i + 1] - edges[i]), file, row_group_size=workload.row_group
        )
        os.utime(file, (_FIRST_MTIME + i, _FIRST_MTIME + i))
