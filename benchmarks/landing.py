"""Compares sinks of Tailrace with Spark's own and Delta's, and the reader of windows with a scan by pyarrow.

    python benchmarks/landing.py --rows 2000000 --rounds 5

Writes a day of logs as Parquet. Then one JVM runs each sink in turns over all of them, --rounds times after
two rounds that don't count, each time into a new folder or table, with a new checkpoint:

    parquet            Spark's file sink, partitioned by the hour
    windows            `write_windows`, an hour a window: rows once, windows marked when they are complete
    windows-gathered   with `target_file_size`
    windows-clustered  with `cluster_by`: rows of a page adjacent
    windows-delta      into a Delta table, a commit a window
    delta              Delta's own streaming sink
    table              `write_table`: appends
    table-keys         `write_table` with keys: merges

After that what `windows` has written is read: by pyarrow alone (`scan`), by `WindowReader` (`reader`), and
with its shuffle. Each output is counted before its time is taken for anything. Prints the table and writes it
to benchmarks/results/NAME.txt.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it

import report
import session
import tailrace
from measure import Jvm
from tailrace.reading import WindowReader

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_T = TypeVar("_T")
_SCHEMA = "id long, event_time timestamp, hostname string, position int, clicked boolean, page string"
_HOSTS = [f"web-{n}" for n in range(8)]
_EPOCH_US = 1_763_683_200_000_000  # 21 November 2025, 0:00
_DAY_US = 86_400_000_000
_DELTA = {
    "spark.jars.packages": "io.delta:delta-spark_4.2_2.13:4.4.0",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "2",
}
_COLD = 2
# What is compared, and with what.
_PAIRS = (
    ("windows", "parquet"),
    ("windows-gathered", "windows"),
    ("windows-clustered", "windows-gathered"),
    ("windows-delta", "delta"),
    ("table", "delta"),
    ("table-keys", "delta"),
    ("reader", "scan"),
    ("reader-shuffled", "scan"),
)


def write_logs(path: Path, rows: int, batches: int) -> None:
    """Writes the logs of a day, a file a micro-batch, with the hosts' rows mixed, in the order of time."""
    path.mkdir()
    rng = np.random.default_rng(11)
    times = _EPOCH_US + np.sort(rng.integers(0, _DAY_US, rows))
    pages = np.array([f"/section/{n % 97}/article/{n}?campaign={n % 13}" for n in range(5_000)])
    for batch, ids in enumerate(np.array_split(np.arange(rows), batches)):
        table = pa.table(
            {
                "id": ids,
                "event_time": pa.array(times[ids], pa.timestamp("us", tz="UTC")),
                "hostname": np.array(_HOSTS)[rng.integers(0, len(_HOSTS), len(ids))],
                "position": pa.array(rng.integers(0, 50, len(ids)), pa.int32()),
                "clicked": rng.random(len(ids)) < 0.03,  # noqa: PLR2004  one in thirty
                "page": pages[rng.integers(0, len(pages), len(ids))],
            }
        )
        pq.write_table(table, path / f"{batch:04d}.parquet")


def _logs(spark: SparkSession, data: Path) -> DataFrame:
    logs = spark.readStream.schema(_SCHEMA).option("maxFilesPerTrigger", "1").parquet(str(data))
    return tailrace.accurate_watermark(logs, "event_time", host="hostname", hosts=_HOSTS, completeness="100%")


def _sinks(spark: SparkSession, data: Path) -> dict[str, Callable[[Path], DataStreamWriter]]:
    def windows(out: Path, **more: Any) -> DataStreamWriter:  # noqa: ANN401  as write_windows has them
        return tailrace.write_windows(_logs(spark, data), out, "event_time", window="1 hour", **more)

    def by_hour(out: Path) -> DataStreamWriter:
        hour = F.date_format("event_time", "yyyyMMdd'T'HHmmss'Z'")
        frame = _logs(spark, data).withColumn("window_start", hour)
        return frame.writeStream.format("parquet").partitionBy("window_start").option("path", str(out))

    return {
        "parquet": by_hour,
        "windows": windows,
        "windows-gathered": lambda out: windows(out, target_file_size="128 MB"),
        "windows-clustered": lambda out: windows(out, cluster_by=["page"]),
        "windows-delta": lambda out: windows(out, format="delta", table=out.with_name(f"{out.name}-table")),
        "delta": lambda out: _logs(spark, data).writeStream.format("delta").option("path", str(out)),
        "table": lambda out: tailrace.write_table(_logs(spark, data), out),
        "table-keys": lambda out: tailrace.write_table(_logs(spark, data), out, keys=["id"]),
    }


def _run(writer: DataStreamWriter) -> None:
    writer.start().awaitTermination()


def _written(spark: SparkSession, sink: str, out: Path) -> int:
    if sink == "windows-delta":
        # The last window is open: its rows are in the folder.
        table = spark.read.format("delta").load(str(out.with_name(f"{out.name}-table")))
        return table.count() + spark.read.parquet(str(out)).count()
    return (
        spark.read.format("parquet" if sink.startswith(("parquet", "windows")) else "delta")
        .load(str(out))
        .count()
    )


def _scan(folder: Path, columns: list[str]) -> int:
    files = sorted(str(file) for file in folder.glob("window_start=*/*.parquet"))
    return sum(batch.num_rows for batch in ds.dataset(files).to_batches(columns=columns))


def _read(folder: Path, shuffle: int, columns: list[str]) -> int:
    reader = WindowReader(folder, columns=columns, shuffle=shuffle, batch_size=8192)
    return sum(batch.num_rows for batch in reader)


def _timed(jvm: Jvm | None, what: Callable[[], _T]) -> tuple[_T, dict[str, float]]:
    """Does it, and says how long it has taken the JVM, or this process if none is given."""

    def cpu() -> float:
        return jvm.cpu_seconds() if jvm else time.process_time()

    at, spent = time.monotonic(), cpu()
    result = what()
    return result, {"seconds": time.monotonic() - at, "cpu_seconds": cpu() - spent}


def _measure(a: argparse.Namespace, work: Path) -> list[dict[str, Any]]:
    data = work / "logs"
    write_logs(data, a.rows, a.batches)
    spark = session.local("4g", _DELTA)
    jvm = Jvm.of_this_process()
    found: list[dict[str, Any]] = []
    sinks = _sinks(spark, data)
    for number in range(-_COLD, a.rounds):
        first = number % len(sinks)
        for sink in [*list(sinks)[first:], *list(sinks)[:first]]:
            out = work / f"{sink}-{number}"
            writer = sinks[sink](out).trigger(availableNow=True)
            writer = writer.option("checkpointLocation", str(work / f"checkpoint-{sink}-{number}"))
            _, cost = _timed(jvm, partial(_run, writer))
            if (rows := _written(spark, sink, out)) != a.rows:
                raise RuntimeError(f"{sink} has written {rows} rows of {a.rows}")
            if number >= 0:
                found.append({"what": sink, "rows": rows, **cost})
                print(f"round {number + 1} of {sink}: {cost['seconds']:.1f} s", flush=True)
    spark.stop()
    return [*found, *_reads(work / f"windows-{a.rounds - 1}", a.rounds)]


def _reads(folder: Path, rounds: int) -> list[dict[str, Any]]:
    """Reads complete windows by each means, in turns."""
    columns = ["id", "position", "clicked", "page"]
    complete = folder.with_name("complete")
    complete.mkdir()
    for window in map(Path, (window.path for window in WindowReader(folder).windows())):
        (complete / window.name).symlink_to(window)
    means: dict[str, Callable[[], int]] = {
        "scan": lambda: _scan(complete, columns),
        "reader": lambda: _read(folder, 0, columns),
        "reader-shuffled": lambda: _read(folder, 100_000, columns),
    }
    found: list[dict[str, Any]] = []
    for number in range(-1, rounds):
        counts = set()
        for name, read in means.items():
            rows, cost = _timed(None, read)
            counts.add(rows)
            if number >= 0:
                found.append({"what": name, "rows": rows, **cost})
        if len(counts) > 1:
            raise RuntimeError(f"the means have read other numbers of rows: {counts}")
    return found


def _table(found: list[dict[str, Any]]) -> list[str]:
    of: dict[str, list[dict[str, Any]]] = {}
    for run in found:
        of.setdefault(run["what"], []).append(run)
    lines = ["                        rows/s   CPU us a row"]
    for what, runs in of.items():
        rate = median(r["rows"] / r["seconds"] for r in runs)
        cpu = median(r["cpu_seconds"] / r["rows"] for r in runs) * 1e6
        lines.append(f"{what:18}{rate:12,.0f}{cpu:15.2f}")
    lines += ["", "of the same round, median (least, most)              rate                     by CPU"]
    for what, other in _PAIRS:
        pairs = list(zip(of[what], of[other], strict=True))
        cells = []
        for key in ("seconds", "cpu_seconds"):
            ratios = [(theirs[key] / theirs["rows"]) / (own[key] / own["rows"]) for own, theirs in pairs]
            cells.append(f"{median(ratios):8.3f} ({min(ratios):.3f}, {max(ratios):.3f})")
        lines.append(f"{what + ' to ' + other:44}" + "   ".join(cells))
    return lines


def main() -> int:
    """Runs the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--batches", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--work", type=Path, help="where the data are kept while it runs")
    parser.add_argument("--name", default="landing")
    a = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tailrace-landing-", dir=a.work) as folder:
        header = report.heading(f"{a.rows} rows, {a.batches} micro-batches, {a.rounds} rounds, local[2], 4g")
        found = _measure(a, Path(folder))
    report.save(a.name, [*header, "", *_table(found), "", *(json.dumps(run) for run in found)])
    return 0


if __name__ == "__main__":
    sys.exit(main())
