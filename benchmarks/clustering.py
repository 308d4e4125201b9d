"""Measures what `cluster_by` of `write_windows` costs, and what readers gain, in a JVM that is warm.

    python benchmarks/clustering.py --rounds 5

The rows are views of a day. A session of twenty views repeats the features of its user, an embedding and a
list of recent items. Sessions overlap, and the logs are in the order of time. Three sinks take turns, an hour
a window: `write_windows` as it is, with files of a target size, and with the rows of a session adjacent. The
first rounds aren't counted. Then complete windows are read, by `WindowReader` as a trainer does, and the rows
of one user by pyarrow. Prints the tables and writes them to benchmarks/results/clustering.txt.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

import report
import tailrace
from measure import Jvm
from rounds import Cost, compared, table
from session import local
from tailrace.reading import WindowReader

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import SparkSession

_SCHEMA = (
    "view_id long, user_id long, session long, event_time timestamp, hostname string, item int, "
    "clicked boolean, profile array<float>, recent array<int>"
)
_HOSTS = [f"web-{n}" for n in range(4)]
_EPOCH_US = 1_763_683_200_000_000  # 21 November 2025, 0:00
_DAY_US = 86_400_000_000
_VIEWS, _MINUTES_BETWEEN = 20, 0.5
_EMBEDDINGS, _RECENT = 16, 30
_SINKS: Mapping[str, Mapping[str, Any]] = {
    "windows": {},
    "gathered": {"target_file_size": "128 MB"},
    "clustered": {"cluster_by": ["user_id", "session"]},
}
_COLUMNS = ["view_id", "user_id", "item", "clicked", "profile", "recent"]
# Bytes: a file has several, of which a reader may skip some.
_ROW_GROUP = 4 << 20
_BAR = 1 / 1.1


def write_logs(path: Path, rows: int, batches: int) -> None:
    """Writes the views of a day, a file a micro-batch, in the order of time."""
    path.mkdir()
    rng = np.random.default_rng(11)
    sessions = rows // _VIEWS
    users = rng.integers(0, sessions // 3, sessions)
    starts = rng.integers(0, _DAY_US, sessions)
    gaps = rng.exponential(_MINUTES_BETWEEN * 60e6, (sessions, _VIEWS)).astype(np.int64)
    times = (starts[:, None] + gaps.cumsum(axis=1)).ravel() % _DAY_US
    order = np.argsort(times, kind="stable")
    session = np.repeat(np.arange(sessions), _VIEWS)[order]
    profiles = rng.random((sessions, _EMBEDDINGS), dtype=np.float32)
    recent = rng.integers(0, 1_000_000, (sessions, _RECENT), dtype=np.int32)
    for batch, part in enumerate(np.array_split(np.arange(len(order)), batches)):
        own = session[part]
        found = pa.table(
            {
                "view_id": part,
                "user_id": users[own],
                "session": own,
                "event_time": pa.array(_EPOCH_US + times[order[part]], pa.timestamp("us", tz="UTC")),
                "hostname": np.array(_HOSTS)[rng.integers(0, len(_HOSTS), len(part))],
                "item": pa.array(rng.integers(0, 1_000_000, len(part)), pa.int32()),
                "clicked": rng.random(len(part)) < 0.03,  # noqa: PLR2004  one in thirty
                "profile": _lists(profiles[own]),
                "recent": _lists(recent[own]),
            }
        )
        pq.write_table(found, path / f"{batch:04d}.parquet")


def _lists(values: np.ndarray[Any, Any]) -> Any:  # noqa: ANN401 - an array of pyarrow's
    offsets = np.arange(len(values) + 1, dtype=np.int32) * values.shape[1]
    return pa.ListArray.from_arrays(offsets, pa.array(values.ravel()))


def _land(spark: SparkSession, logs: Path, out: Path, sink: str) -> None:
    read = spark.readStream.schema(_SCHEMA).option("maxFilesPerTrigger", "1").parquet(str(logs))
    marked = tailrace.accurate_watermark(
        read, "event_time", host="hostname", hosts=_HOSTS, completeness="100%"
    )
    writer = tailrace.write_windows(marked, out, "event_time", window="1 hour", **_SINKS[sink])
    writer = writer.option("checkpointLocation", f"{out}-checkpoint").trigger(availableNow=True)
    writer.start().awaitTermination()


def _files(out: Path) -> list[Path]:
    return sorted(out.glob("window_start=*/*.parquet"))


def _landings(
    spark: SparkSession, logs: Path, work: Path, a: argparse.Namespace
) -> tuple[dict[str, list[Cost]], dict[str, Path]]:
    jvm = Jvm.of_this_process()
    costs: dict[str, list[Cost]] = {sink: [] for sink in _SINKS}
    outs: dict[str, Path] = {}
    for i in range(a.cold + a.rounds):
        for sink in list(_SINKS)[:: 1 if i % 2 == 0 else -1]:
            if sink in outs:
                shutil.rmtree(outs[sink])
            outs[sink] = work / f"{sink}-{i}"
            os.sync()
            cpu, begin = jvm.cpu_seconds(), time.perf_counter()
            _land(spark, logs, outs[sink], sink)
            seconds, cpu = time.perf_counter() - begin, jvm.cpu_seconds() - cpu
            rows = sum(pq.read_metadata(file).num_rows for file in _files(outs[sink]))
            print(f"round {i + 1}, {sink}: {seconds:.2f} s, CPU {cpu:.2f} s, {rows:,} rows", flush=True)
            if i >= a.cold:
                costs[sink].append(Cost(seconds, cpu, rows))
    return costs, outs


def _rate(read: Callable[[], int], rounds: int) -> tuple[int, float]:
    """The number of rows that it reads, and their rate in rows per second."""
    rates = []
    for _ in range(rounds + 1):
        begin = time.perf_counter()
        rows = read()
        rates.append(rows / (time.perf_counter() - begin))
    return rows, median(rates[1:])


def _trained(out: Path) -> int:
    return sum(batch.num_rows for batch in WindowReader(out, columns=_COLUMNS, batch_size=8192))


def _of_user(out: Path, user: int) -> int:
    """Reads the row groups that may have a user's rows. Returns how many rows those have."""
    found = 0
    for fragment in ds.dataset([str(file) for file in _files(out)]).get_fragments():
        kept = fragment.subset(ds.field("user_id") == user)
        found += sum(group.num_rows for group in kept.row_groups)
        kept.to_table(columns=_COLUMNS, filter=ds.field("user_id") == user)
    return found


def main() -> int:
    """Runs the command line. Returns the exit code: 1 if clustering costs more than a tenth."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--batches", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cold", type=int, default=1, help="rounds that aren't counted")
    a = parser.parse_args()
    lines = report.heading(str(vars(a)))
    with tempfile.TemporaryDirectory(prefix="tailrace-bench-") as folder:
        work = Path(folder).resolve()
        write_logs(work / "logs", a.rows, a.batches)
        spark = local("4g", {"spark.hadoop.parquet.block.size": str(_ROW_GROUP)})
        costs, outs = _landings(spark, work / "logs", work, a)
        spark.stop()
        lines += ["", *table(costs)]
        for other in ("gathered", "windows"):
            rate, cpu = compared(costs["clustered"], costs[other])
            lines.append(f"clustered against {other}, median of rounds: {rate:.3f}, by CPU {cpu:.3f}")
        lines += ["", f"{'':12}{'MB':>8}{'files':>8}{'read rows/s':>14}{'rows read for a user':>24}"]
        for sink, out in outs.items():
            size = sum(file.stat().st_size for file in _files(out)) / 1e6
            _, rate = _rate(partial(_trained, out), a.rounds)
            lines.append(f"{sink:12}{size:8.0f}{len(_files(out)):8}{rate:14,.0f}{_of_user(out, 7):24,}")
    report.save("clustering", lines)
    return 0 if compared(costs["clustered"], costs["gathered"])[0] >= _BAR else 1


if __name__ == "__main__":
    sys.exit(main())
