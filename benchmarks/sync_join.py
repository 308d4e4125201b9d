"""Compares the synced join with Spark's left outer join of two streams, one partition of which lags.

    python benchmarks/sync_join.py --left 2000000 --runs 3

Checks first what comes out, and when, of one run of each engine into Parquet: matches that were lost, left
rows that came out unmatched though they have a match, and how far event time had gone when a row was decided.
Then times the engines in turn, --runs times over, each time in a fresh JVM, with two cores and with one.
Prints the table and writes it to benchmarks/results/NAME.txt.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq
from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it

import report
import sync_streams
import tailrace
from measure import Jvm, StateSampler
from queries import session
from session import launch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from sync_streams import Streams

# Spark's own with the same delay, and with one that the partition that lags fits into.
_ENGINES = ("tailrace", "tailrace-exactly-one", "spark-format-4", "spark-format-4-waiting", "floor")
_DELAY = f"{sync_streams.JUMP_S + sync_streams.DISTANCE_S} seconds"
_DELAY_US = (sync_streams.JUMP_S + sync_streams.DISTANCE_S) * 1_000_000
_WAITING = f"{sync_streams.LAG_S + sync_streams.JUMP_S + sync_streams.DISTANCE_S} seconds"
_PARTITIONS = 2


def _side(spark: SparkSession, data: Path, name: str) -> DataFrame:
    reader = spark.readStream.schema(sync_streams.SCHEMA).option("maxFilesPerTrigger", 1)
    return reader.parquet(str(data / name))


def joined(engine: str, left: DataFrame, right: DataFrame) -> DataFrame:
    """The query of one engine over both streams."""
    if engine.startswith("tailrace"):
        out = tailrace.sync_join(
            left,
            right,
            on="id",
            left_time="created",
            right_time="created",
            window="10 minutes",
            sync_delay=_DELAY,
            one_to_one=engine == "tailrace-exactly-one",
        )
        return out.withColumnRenamed("created_right", "matched")
    # Spark's own needs a watermark on both sides, and a bound of the times to give anything up.
    right = right.select(F.col("id").alias("right_id"), F.col("created").alias("matched"), "value")
    delay = _WAITING if engine.endswith("-waiting") else _DELAY
    left, right = left.withWatermark("created", delay), right.withWatermark("matched", delay)
    if engine == "floor":
        right = right.withColumnsRenamed({"right_id": "id", "matched": "created"})
        return left.drop("partition").union(right.select("id", "created", "value")).repartition(2, "id")
    condition = f"id = right_id AND matched >= created AND matched <= created + interval {_DELAY}"
    return left.join(right, F.expr(condition), "leftOuter")


def run_once(engine: str, data: Path, scratch: Path, cores: int, *, checked: bool) -> dict[str, Any]:
    """Reads both streams to their end; into Parquet if what comes out is to be checked."""
    conf = {
        "spark.master": f"local[{cores}]",
        "spark.driver.memory": "4g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(_PARTITIONS),
        "spark.sql.streaming.numRecentProgressUpdates": "100000",
        "spark.local.dir": str(scratch / "local"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    if cores == 1:
        # Its compiler and collector too: the JVM inherits it.
        os.sched_setaffinity(0, {0})
    spark = session(engine.removesuffix("-waiting"), conf)
    jvm = Jvm.of_this_process()
    frame = joined(engine, _side(spark, data, "left"), _side(spark, data, "right"))
    if checked:
        writer = frame.select("id", "created", "matched").writeStream.format("parquet")
        writer = writer.option("path", str(scratch / "out"))
    else:
        writer = frame.writeStream.format("noop")
    writer = writer.option("checkpointLocation", str(scratch / "checkpoint")).trigger(availableNow=True)
    with StateSampler(scratch / "checkpoint", scratch / "local") as sampler:
        cpu, started = jvm.cpu_seconds(), time.perf_counter()
        query = writer.start()
        query.awaitTermination()
        seconds, cpu = time.perf_counter() - started, jvm.cpu_seconds() - cpu
    progress = [json.loads(p.json) for p in query.recentProgress]
    states = [sum(o["numRowsTotal"] for o in p["stateOperators"]) for p in progress]
    found = {
        "engine": engine,
        "cores": cores,
        "seconds": round(seconds, 3),
        "cpu_seconds": cpu,
        "rows": sum(p["numInputRows"] for p in progress),
        "peak_rss_bytes": jvm.peak_rss_bytes(),
        "state_rows": max(states, default=0),
        "checkpoint_peak_bytes": sampler.checkpoint.peak_bytes,
        "local_peak_bytes": sampler.local_peak_bytes,
        "written_bytes": sampler.checkpoint.written_bytes,
        "batches": len(progress),
        "batch_ms": median(p["durationMs"]["triggerExecution"] for p in progress),
    }
    spark.stop()
    return found


@dataclass(frozen=True)
class Decided:
    """What one engine has made of the streams.

    Attributes:
        due: left rows that the end of the streams has released.
        missing: of these, those that haven't come out.
        twice: left rows that came out more than once.
        lost: rows that have a match and came out without it, or not at all though they were due.
        spurious: rows that came out with a match that they don't have.
        latencies: of each row, the seconds of event time from it to where the slowest right partition was
            when it came out.
        waits: of each pair, the seconds from the slice that has its later row to the one with which it came
            out.
    """

    due: int
    missing: int
    twice: int
    lost: int
    spurious: int
    latencies: Any
    waits: Any


def judge(streams: Streams, out: Path) -> Decided:
    """Compares what has come out with what is true."""
    ids, matched, batches = [], [], []
    for batch, path in _committed(out):
        table = pq.read_table(path)
        ids.append(table["id"].to_numpy())
        matched.append(~table["matched"].is_null().to_numpy())
        batches.append(np.full(table.num_rows, batch))
    key, has, batch_of = np.concatenate(ids), np.concatenate(matched), np.concatenate(batches)
    times = np.bincount(key, minlength=len(streams.left))
    due = streams.released(_DELAY_US / 1_000_000)
    with_match = np.bincount(key[has], minlength=len(streams.left)) > 0
    out_at_all = times > 0
    lost = streams.matched & out_at_all & ~with_match
    missing = due[~out_at_all[due]]
    at = np.array(streams.slowest)[np.minimum(batch_of, streams.slices - 1)]
    return Decided(
        due=len(due),
        missing=len(missing),
        twice=int((times > 1).sum()),
        lost=int(lost.sum() + streams.matched[missing].sum()),
        spurious=int((with_match & ~streams.matched).sum()),
        latencies=(at - streams.left[key]) / 1_000_000,
        waits=(batch_of[has] - streams.complete[key[has]]) * streams.slice_s,
    )


def _committed(out: Path) -> list[tuple[int, str]]:
    log = out / "_spark_metadata"
    found: dict[str, int] = {}
    for path in sorted(log.iterdir(), key=lambda p: int(p.stem) if p.stem.isdigit() else -1):
        if path.stem.isdigit() and path.suffix in ("", ".compact"):
            for line in path.read_text().splitlines()[1:]:
                name = json.loads(line)["path"].removeprefix("file://")
                found.setdefault(name, int(path.stem))
    return [(batch, name) for name, batch in found.items()]


def _launch(engine: str, data: Path, scratch: Path, cores: int, *more: str) -> dict[str, Any]:
    scratch.mkdir()
    where = ["--data", str(data), "--scratch", str(scratch), "--cores", str(cores)]
    found: dict[str, Any] = launch(__file__, ["--once", engine, *where, *more])
    return found


def _check(streams: Streams, engines: Sequence[str], scratch: Path) -> tuple[list[str], bool]:
    head = f"{'engine':24}{'due':>10}{'missing':>9}{'lost':>9}{'spurious':>10}{'twice':>7}"
    lines = [f"{head} latency s: mid, most; a pair's"]
    right = True
    for engine in (e for e in engines if e != "floor"):
        _launch(engine, scratch, scratch / f"check-{engine}", 2, "--checked")
        d = judge(streams, scratch / f"check-{engine}" / "out")
        times = f"{np.median(d.latencies):.1f}, {d.latencies.max():.1f}; "
        times += f"{np.median(d.waits):.1f}, {d.waits.max():.1f}"
        lines.append(f"{engine:24}{d.due:10,}{d.missing:9,}{d.lost:9,}{d.spurious:10,}{d.twice:7,} {times}")
        print(lines[-1], flush=True)
        if engine.startswith("tailrace"):
            right &= d.missing == d.lost == d.spurious == d.twice == 0
    most = _DELAY_US / 1_000_000 + 2 * streams.slice_s
    lines.append("a pair's: from the slice that has its later row to the one with which it comes out")
    lines.append(
        f"sync_delay and two micro-batches are {most:.1f} s; the last one lags by {sync_streams.LAG_S} s"
    )
    return lines, right


def _compare(a: argparse.Namespace) -> int:
    runs: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        streams = sync_streams.write(scratch, a.left, a.slices, a.seconds)
        header = report.heading(
            f"{a.left} left rows of {a.seconds:.0f} s, {streams.rows} in all, slices of "
            f"{streams.slice_s:.1f} s, delay {_DELAY}, runs {a.runs}"
        )
        print("\n".join(header), flush=True)
        verdict, right = _check(streams, a.engines, scratch)
        if not right:
            print("\n".join(verdict))
            return 1
        turns = [(engine, 2) for engine in a.engines] + [("tailrace", 1)]
        for n in range(a.runs):
            shift = n % len(turns)
            for engine, cores in [*turns[shift:], *turns[:shift]]:
                found = _launch(engine, scratch, scratch / f"{engine}-{cores}-{n}", cores)
                if found["rows"] != streams.rows:
                    raise RuntimeError(f"{engine} has read {found['rows']} rows of {streams.rows}")
                runs.append(found)
                print(f"run {n + 1} of {engine}, {cores} cores: {found['seconds']:.1f} s", flush=True)
    table = _table(runs, a.engines)
    report.save(
        a.name or f"sync-join-{a.left}", [*header, "", *verdict, "", *table, "", *map(json.dumps, runs)]
    )
    return 0


def _table(runs: list[dict[str, Any]], engines: Sequence[str]) -> list[str]:
    def middle(engine: str, cores: int, what: str) -> float:
        found: float = median(r[what] for r in runs if r["engine"] == engine and r["cores"] == cores)
        return found

    head = ("rows/s", "CPU us/row", "state rows", "ckpt peak MB", "disk peak MB", "RSS MB", "batch ms")
    lines = [f"{'engine':33}" + "".join(f"{column:>14}" for column in head)]
    for engine, cores in [*((engine, 2) for engine in engines), ("tailrace", 1)]:
        rows = runs[0]["rows"]
        numbers = (
            rows / middle(engine, cores, "seconds"),
            middle(engine, cores, "cpu_seconds") / rows * 1e6,
            middle(engine, cores, "state_rows"),
            middle(engine, cores, "checkpoint_peak_bytes") / 1e6,
            middle(engine, cores, "local_peak_bytes") / 1e6,
            middle(engine, cores, "peak_rss_bytes") / 1e6,
            middle(engine, cores, "batch_ms"),
        )
        lines.append(f"{engine + f', {cores} cores':33}" + "".join(f"{number:14,.1f}" for number in numbers))
    return lines


def main() -> int:
    """Compares, or makes one run of a comparison."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--left", type=int, default=2_000_000)
    parser.add_argument("--slices", type=int, default=30, help="files a side that the left rows are in")
    parser.add_argument("--seconds", type=float, default=300, help="of event time")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--engines", nargs="+", choices=_ENGINES, default=list(_ENGINES))
    parser.add_argument("--name")
    inner = parser.add_argument_group("one run, in a process of its own")
    inner.add_argument("--once", choices=_ENGINES)
    inner.add_argument("--data", type=Path)
    inner.add_argument("--scratch", type=Path)
    inner.add_argument("--cores", type=int, default=2)
    inner.add_argument("--checked", action="store_true")
    a = parser.parse_args()
    if a.once:
        print(json.dumps(run_once(a.once, a.data, a.scratch, a.cores, checked=a.checked)))
        return 0
    return _compare(a)


if __name__ == "__main__":
    sys.exit(main())
