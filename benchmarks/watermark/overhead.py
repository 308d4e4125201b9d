"""Measures what the accurate watermark adds to a query that scans logs and counts them by window.

    python benchmarks/watermark/overhead.py --rows 20000000 --runs 5

Writes logs of --hosts hosts as Parquet, each host's in the order of its times and the hosts' mixed row by
row, then runs the same query with Spark's `withWatermark` and with `tailrace.accurate_watermark`, in turns,
each run in a fresh JVM. In the first pair of queries the query itself reads the host, in the second the
watermark alone does, so that reading the column counts too. Prints the table and writes it to
benchmarks/results/NAME.txt.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it

sys.path.insert(0, str(Path(__file__).parents[1]))

import report
import session
import tailrace
from measure import Jvm

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ENGINES = ("spark", "tailrace", "spark-host-unread", "tailrace-host-unread")
_FILES = 4  # of a micro-batch; a host is in one of them, as a host's log is in one partition of a topic
_SCHEMA = "event_time timestamp, hostname string, bytes long"
_EPOCH_US = 1_763_700_000_000_000
_BATCH_US = 60_000_000  # event time of a micro-batch
_MOST = 0.03


def write(data: Path, rows: int, batches: int, hosts: int) -> None:
    """Writes the logs, and the roster of their hosts."""
    data.mkdir(exist_ok=True)
    (data / "roster.txt").write_text("\n".join(write_logs(data / "logs", rows, batches, hosts)))


def write_logs(path: Path, rows: int, batches: int, hosts: int) -> list[str]:
    """Writes the logs, a few files a micro-batch, and returns the hosts' names."""
    rng = np.random.default_rng(7)
    names = pa.array([f"host-{n:06d}.rack-{n % 40:02d}.example.net" for n in range(hosts)])
    per_file = rows // (batches * _FILES)
    path.mkdir()
    for batch in range(batches):
        for part in range(_FILES):
            host = rng.integers(0, hosts // _FILES, per_file) * _FILES + part
            # In the order of time: then each host's rows are in it too.
            offset = np.sort(rng.integers(0, _BATCH_US, per_file))
            time = pa.array(_EPOCH_US + batch * _BATCH_US + offset, pa.timestamp("us", "UTC"))
            hostname = pa.DictionaryArray.from_arrays(host.astype(np.int32), names).cast(pa.string())
            size = rng.integers(100, 100_000, per_file)
            table = pa.table({"event_time": time, "hostname": hostname, "bytes": size})
            file = path / f"{batch:03d}-{part}.parquet"
            pq.write_table(table, file)
            stamp = 1_600_000_000 + batch * _FILES + part
            os.utime(file, (stamp, stamp))
    return [str(name) for name in names]


def _query(engine: str, logs: DataFrame, roster: Path) -> DataFrame:
    if engine.startswith("tailrace"):
        marked = tailrace.accurate_watermark(logs, "event_time", host="hostname", hosts=roster)
    else:
        marked = logs.withWatermark("event_time", "10 seconds")
    counted = F.lit(1) if engine.endswith("-host-unread") else F.col("hostname")
    window = F.window("event_time", "10 seconds")
    return marked.groupBy(window).agg(F.count(counted).alias("rows"), F.sum("bytes").alias("bytes"))


def run_once(engine: str, data: Path, checkpoint: Path) -> dict[str, Any]:
    """Reads all logs and says what it took."""
    spark = session.local("3g")
    jvm = Jvm.of_this_process()
    reader = spark.readStream.schema(_SCHEMA).option("maxFilesPerTrigger", _FILES)
    frame = _query(engine, reader.parquet(str(data / "logs")), data / "roster.txt")
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    cpu, started = jvm.cpu_seconds(), time.perf_counter()
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    seconds, cpu = time.perf_counter() - started, jvm.cpu_seconds() - cpu
    progress = [p for p in query.recentProgress if p.numInputRows]
    # The first batches compile what all run.
    warm = median(p.durationMs["triggerExecution"] for p in progress[len(progress) // 2 :])
    found = {
        "engine": engine,
        "seconds": round(seconds, 3),
        "cpu_seconds": cpu,
        "rows": sum(p.numInputRows for p in progress),
        "warm_batch_ms": warm,
        "watermark": progress[-1].eventTime.get("watermark"),
    }
    spark.stop()
    return found


def _launch(engine: str, data: Path, checkpoint: Path) -> dict[str, Any]:
    where = ["--data", str(data), "--checkpoint", str(checkpoint)]
    found: dict[str, Any] = session.launch(__file__, ["--once", engine, *where])
    return found


def _table(runs: list[dict[str, Any]], engines: list[str]) -> tuple[list[str], bool]:
    """The medians, and whether the bar is met: by the query that reads the host, as a whole and when warm."""

    def middle(engine: str, what: str) -> float:
        found: float = median(run[what] for run in runs if run["engine"] == engine)
        return found

    columns = ("seconds", "cpu_seconds", "warm_batch_ms")
    head = f"{'engine':22}{'rows/s':>12}{'s':>8}{'CPU s':>8}{'warm ms a batch':>17}"
    lines = [f"{head}   over its peer, the same three"]
    met = True
    for engine in engines:
        seconds, cpu, warm = (middle(engine, what) for what in columns)
        line = f"{engine:22}{runs[0]['rows'] / seconds:12,.0f}{seconds:8.2f}{cpu:8.2f}{warm:17,.0f}"
        peer = engine.replace("tailrace", "spark")
        if peer != engine and peer in engines:
            over = [middle(engine, what) / middle(peer, what) - 1 for what in columns]
            line += "   " + "".join(f"{value:+8.1%}" for value in over)
            if engine == "tailrace":
                met = over[0] <= _MOST and over[2] <= _MOST
        lines.append(line)
    return lines, met


def _compare(a: argparse.Namespace) -> int:
    header = report.heading(
        f"{a.rows} rows of {a.hosts} hosts in {a.batches} micro-batches, runs {a.runs}, "
        f"local[2], 3g, Parquet to the noop sink"
    )
    runs: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        write(scratch, a.rows, a.batches, a.hosts)
        for n in range(a.runs):
            turn = n % len(a.engines)
            for engine in [*a.engines[turn:], *a.engines[:turn]]:
                found = _launch(engine, scratch, scratch / f"{engine}-{n}")
                if found["rows"] != a.rows:
                    raise RuntimeError(f"{engine} has read {found['rows']} rows of {a.rows}")
                runs.append(found)
                print(f"run {n + 1} of {engine}: {found['seconds']:.2f} s", flush=True)
    table, met = _table(runs, a.engines)
    bar = f"bar: at most {_MOST:.0%} over spark, in all and a warm batch: {'met' if met else 'NOT met'}"
    report.save(a.name, [*header, "", *table, "", bar, "", *(json.dumps(run) for run in runs)])
    return 0 if met else 1


def main() -> int:
    """Compares, or makes one run of a comparison."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--batches", type=int, default=10)
    parser.add_argument("--hosts", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--engines", nargs="+", choices=_ENGINES, default=list(_ENGINES))
    parser.add_argument("--name", default="watermark-overhead")
    inner = parser.add_argument_group("one run, in a process of its own")
    inner.add_argument("--write", action="store_true")
    inner.add_argument("--once", choices=_ENGINES)
    inner.add_argument("--data", type=Path)
    inner.add_argument("--checkpoint", type=Path)
    a = parser.parse_args()
    if a.write:
        write(a.data, a.rows, a.batches, a.hosts)
        print(json.dumps(a.rows))
        return 0
    if a.once:
        print(json.dumps(run_once(a.once, a.data, a.checkpoint)))
        return 0
    return _compare(a)


if __name__ == "__main__":
    sys.exit(main())
