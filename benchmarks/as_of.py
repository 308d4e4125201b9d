"""Compares `tailrace.as_of` with Flink's event-time temporal join on RocksDB.

    python benchmarks/as_of.py --runs 3

Maven builds Flink's program, which is in `benchmarks/peers`. Each key is updated --updates times over an
hour, and the left rows ask for random keys at random times. First both run over a twentieth of it, and
have to find the same row for each left row. Then they run in turn, each time in a fresh JVM. Leaves the table
in benchmarks/results/as-of.txt. Exit code 1 if the outputs differ: then nothing is timed.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import flink
import report
from runs import RunSpec, launch
from workload import EPOCH_MS

if TYPE_CHECKING:
    import numpy.typing as npt

    Longs = npt.NDArray[np.int64]

_HOUR_MS = 3_600_000
_LAG_MS = 60_000
_SLICES = 20
_VALUE_BYTES = 100
_FIRST_MTIME = 1_600_000_000
_RESULT = re.compile(r"RESULT rows=(\d+) secs=([\d.]+) out=(\d+) found=(\d+) cpu=([\d.]+)")


@dataclass(frozen=True)
class _Cost:
    rows: int
    seconds: float
    cpu_seconds: float


def _values(ids: Longs, rng: np.random.Generator) -> pa.Array[Any]:
    """Random bytes behind the row's number, which Flink's program reads there."""
    values = rng.integers(0, 256, (len(ids), _VALUE_BYTES), dtype=np.uint8)
    values[:, :8] = ids.astype("<i8").view(np.uint8).reshape(-1, 8)
    fixed = pa.Array.from_buffers(pa.binary(_VALUE_BYTES), len(ids), [None, pa.py_buffer(values.tobytes())])
    return fixed.cast(pa.binary())


def _write(path: Path, side: str, keys: Longs, times: Longs, rng: np.random.Generator) -> None:
    """Rows in the order of their arrival, in slices, and a last row that the watermark passes them by."""
    (path / side).mkdir(parents=True)
    arrivals = times + rng.integers(0, _LAG_MS, len(times))
    order = np.argsort(arrivals, kind="stable")
    bounds = np.searchsorted(arrivals[order], np.linspace(0, _HOUR_MS + _LAG_MS, _SLICES + 1)[1:])
    slices = [(keys[rows], times[rows], rows) for rows in np.split(order, bounds)[:_SLICES]]
    last = np.array([-1]), np.array([2 * _HOUR_MS]), np.array([len(keys)])
    for i, (key, time, ids) in enumerate([*slices, last]):
        columns = {
            "id": pa.array(ids),
            "key": pa.array(key),
            "ts": pa.array((EPOCH_MS + time) * 1000, pa.timestamp("us", "UTC")),
            "value": _values(ids, rng),
        }
        file = path / side / f"{i:03}.parquet"
        pq.write_table(pa.table(columns), file, row_group_size=200_000)
        os.utime(file, (_FIRST_MTIME + i, _FIRST_MTIME + i))


def _make(path: Path, keys: int, updates: int, left: int) -> int:
    """Writes both streams. No key has two updates at one time. Returns the number of rows."""
    rng = np.random.default_rng(7)
    every = _HOUR_MS // updates
    times = np.concatenate([every * i + rng.integers(0, every, keys) for i in range(updates)])
    _write(path, "right", np.tile(np.arange(keys, dtype=np.int64), updates), times, rng)
    _write(path, "left", rng.integers(0, keys, left), rng.integers(0, _HOUR_MS, left), rng)
    return keys * updates + left + 2


def _tailrace(data: Path, rows: int, work: Path, *, checked: bool = False) -> _Cost:
    spec = RunSpec(
        engine="tailrace-as-of",
        data=str(data),
        rows=rows,
        window="",
        delay="2 minutes",
        master="local[2]",
        partitions=2,
        memory="4g",
        conf={},
        scratch=str(work / "run"),
        checked=checked,
    )
    run = launch(spec, timeout=3600)
    return _Cost(run.rows, run.seconds, run.cpu_seconds)


def _flink(flat: Path, work: Path, csv: str = "-") -> _Cost:
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
    command = flink.command("TemporalJoin", [str(flat), csv, str(work)], ["-XX:+UseG1GC", quiet])
    done = subprocess.run(command, capture_output=True, text=True, timeout=3600, check=False)
    found = _RESULT.search(done.stdout)
    if found is None:
        raise RuntimeError(f"Flink failed:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    rows, seconds, _, _, cpu = found.groups()
    return _Cost(int(rows), float(seconds), float(cpu))


def _flat(data: Path) -> Path:
    flat = data.with_suffix(".bin")
    flink.write_flat(data, flat)
    return flat


def _agree(work: Path, keys: int, updates: int, left: int) -> str:
    """What both have found, or SystemExit."""
    data = work / "small"
    rows = _make(data, keys, updates, left)
    with tempfile.TemporaryDirectory(dir=work) as folder:
        _tailrace(data, rows, Path(folder), checked=True)
        tables = [pq.read_table(file) for file in Path(folder, "run", "output").glob("*.parquet")]
        ours = {row["id"]: row["found"] for table in tables for row in table.to_pylist()}
    with tempfile.TemporaryDirectory(dir=work) as folder:
        csv = Path(folder, "out.csv")
        _flink(_flat(data), Path(folder), str(csv))
        lines = (line.split(",") for line in csv.read_text().splitlines())
        theirs = {int(one): None if found == "-1" else int(found) for one, found in lines}
    # The last left row waits.
    ours.pop(left, None)
    theirs.pop(left, None)
    wrong = sum(ours[i] != found for i, found in theirs.items() if i in ours)
    if wrong or ours.keys() != theirs.keys() or len(ours) != left:
        raise SystemExit(f"{len(ours)} and {len(theirs)} rows, {wrong} of them differ: nothing was timed.")
    return (
        f"{left:,} left rows have found the same, {sum(f is not None for f in ours.values()):,} a right row"
    )


def main() -> int:
    """Compares, and leaves the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--updates", type=int, default=10)
    parser.add_argument("--left", type=int, default=1_000_000)
    a = parser.parse_args()
    costs: dict[str, list[_Cost]] = {"tailrace": [], "flink-rocksdb": []}
    flink.build()
    with tempfile.TemporaryDirectory(prefix="tailrace-bench-") as folder:
        work = Path(folder).resolve()
        agreed = _agree(work, a.keys // 20, a.updates, a.left // 20)
        print(agreed, flush=True)
        data = work / "large"
        rows = _make(data, a.keys, a.updates, a.left)
        flat = _flat(data)
        for i in range(a.runs):
            for engine in list(costs)[:: 1 if i % 2 == 0 else -1]:
                with tempfile.TemporaryDirectory(dir=work) as scratch:
                    path = Path(scratch)
                    cost = _tailrace(data, rows, path) if engine == "tailrace" else _flink(flat, path)
                costs[engine].append(cost)
                print(f"{engine}: {cost}", flush=True)
    lines = [*report.heading(str(vars(a))), "", agreed, ""]
    lines.append(f"{'engine':16}{'s':>10}{'rows/s':>12}{'CPU s':>10}{'CPU us/row':>12}")
    middle = {
        engine: (median(c.seconds for c in own), median(c.cpu_seconds for c in own))
        for engine, own in costs.items()
    }
    for engine, (seconds, cpu) in middle.items():
        lines.append(f"{engine:16}{seconds:10.1f}{rows / seconds:12,.0f}{cpu:10.1f}{cpu / rows * 1e6:12.1f}")
    (ours, ours_cpu), (theirs, theirs_cpu) = middle.values()
    lines += [
        "",
        f"Tailrace's multiple: {theirs / ours:.2f} by time, {theirs_cpu / ours_cpu:.2f} by CPU; bar: 3",
    ]
    lines += ["", "raw:", *(f"{engine} {cost}" for engine, own in costs.items() for cost in own)]
    report.save("as-of", lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
