"""Measures what a state partition costs a micro-batch, and fits batch time = a + b x partitions + c x rows.

    python benchmarks/partitions.py --work /tmp/partitions

Runs the label join with 1, 2, 4 ... 64 partitions a core, and the scan and shuffle alone with 1, 8 and 64;
with --engines sync-join the synced join too. The rows of a micro-batch are fixed once, and once those of a
partition. Each run has a fresh JVM. Its later micro-batches count only, when most of the code is compiled.
Three times of a micro-batch are fitted by least squares: from start to end, the JVM's CPU, and the CPU that
Spark counts for its tasks. The last two mean something on a busy machine too. The label join also runs in
other shapes, which no fit has seen.

Prints the tables, and writes them to benchmarks/results/NAME.txt and NAME-other-shapes.txt.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from statistics import mean, median
from typing import TYPE_CHECKING, Any

import queries
import report
import session
import sync_join
import sync_streams
from measure import CpuClock, Jvm, StateSampler
from partition_fit import fits, table
from workload import Workload, prepare

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

_CORES = 2
_A_CORE = (1, 2, 4, 8, 16, 32, 64)
_WINDOW_MINUTES = 30
_DELAY = "2 minutes"
_SYNC_SLICE_S = 10.0
_RIGHT_PER_LEFT = 0.5  # of both workloads, about: so that a micro-batch has the rows that it is to have
_SYNC_RIGHT_PER_LEFT = 0.9
_ENGINES = ("tailrace", "floor", "sync-join")
_EMPTY_TASKS = 2000  # of a job
_JOBS = 6
_NOT_DRIVER = ("Executor task", "C1 ", "C2 ", "GC ", "G1 ")  # threads that run tasks, compile and collect
_LATER = 12  # micro-batches of a run that are measured: the last ones


@dataclass(frozen=True)
class Point:
    """One run.

    Attributes:
        engine: "tailrace" (the label join), "sync-join", or "floor" (scan and shuffles alone).
        partitions: of the shuffle, which are the state's.
        rows: of both sides in a micro-batch.
        value_bytes: of each row's value.
        slices: micro-batches.
        window_batches: micro-batches in the label join's window of half an hour.
    """

    engine: str
    partitions: int
    rows: int
    value_bytes: int = 100
    slices: int = 30
    window_batches: int = 10


# Other rows, windows and partitions than those of the fits.
_OTHER_SHAPES = (
    Point("tailrace", 8, 30_000, value_bytes=20, slices=50),
    Point("floor", 8, 30_000, value_bytes=20, slices=50),
    Point("tailrace", 8, 30_000, value_bytes=400, slices=50),
    Point("floor", 8, 30_000, value_bytes=400, slices=50),
    Point("tailrace", 12, 40_000, value_bytes=200, slices=60, window_batches=25),
)


def _stream(spark: SparkSession, point: Point, data: Path) -> DataFrame:
    if point.engine == "sync-join":
        sides = [
            spark.readStream.schema(sync_streams.SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(path))
            for path in (data / "left", data / "right")
        ]
        return sync_join.joined("tailrace", *sides)
    left, right = (
        queries.stream(spark, str(data / side), _DELAY, f"{side[0]}_") for side in ("left", "right")
    )
    query = queries.floor_two_shuffles if point.engine == "floor" else queries.tailrace_join
    return query(left, right, f"{_WINDOW_MINUTES} minutes", point.partitions)


def _task_cpu(spark: SparkSession) -> list[tuple[float, float]]:
    """When each stage was submitted, in seconds since 1970, and the CPU seconds of its tasks."""
    gateway, context = spark.sparkContext._gateway, spark.sparkContext._jsc  # noqa: SLF001
    if gateway is None:
        raise RuntimeError("the JVM is gone")
    none = gateway.new_array(gateway.jvm.double, 0)
    empty = gateway.jvm.java.util.ArrayList()
    stages = context.sc().statusStore().stageList(None, False, False, none, empty)
    found = []
    for i in range(stages.size()):
        stage = stages.apply(i)
        if stage.submissionTime().isDefined():  # else it was skipped
            found.append((stage.submissionTime().get().getTime() / 1e3, stage.executorCpuTime() / 1e9))
    return found


def run_once(point: Point, data: Path, scratch: Path) -> dict[str, Any]:
    """Runs the point's query over all of the data. Returns what a later micro-batch took, on average."""
    conf = {
        "spark.master": f"local[{_CORES}]",
        "spark.sql.shuffle.partitions": str(point.partitions),
        "spark.local.dir": str(scratch / "local"),
        "spark.sql.streaming.numRecentProgressUpdates": "100000",
        "spark.ui.retainedStages": "100000",
    }
    spark = session.local("2g", conf)
    writer = _stream(spark, point, data).writeStream.format("noop").trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(scratch / "checkpoint"))
    sampler = StateSampler(scratch / "checkpoint", scratch / "local")
    jvm = Jvm.of_this_process()
    with sampler, CpuClock(jvm) as clock:
        query = writer.start()
        query.awaitTermination()
    progress = [json.loads(p.json) for p in query.recentProgress]
    full = [p for p in progress if p["numInputRows"]]
    later = full[point.slices - _LATER : point.slices]  # the synced join's streams end with a few rows more
    starts = [datetime.fromisoformat(p["timestamp"]).timestamp() for p in later]
    seconds = [p["durationMs"]["triggerExecution"] / 1e3 for p in later]
    ends = [start + took for start, took in zip(starts, seconds, strict=True)]
    cpu = clock.at([starts[0], ends[-1]])
    tasks = sum(spent for at, spent in _task_cpu(spark) if starts[0] <= at < ends[-1])
    operators = [o for p in later for o in p["stateOperators"]]
    found = {
        **asdict(point),
        "measured_rows": mean(p["numInputRows"] for p in later),
        "batches": len(later),
        "seconds": median(seconds),
        "cpu_seconds": (cpu[1] - cpu[0]) / len(later),
        "task_cpu_seconds": tasks / len(later),
        "all_rows": sum(p["numInputRows"] for p in progress),
        "all_batches": len(progress),
        "written_bytes": sampler.checkpoint.written_bytes,
        "written_files": sampler.checkpoint.written_files,
        "local_peak_bytes": sampler.local_peak_bytes,
        "state_rows": max((o["numRowsTotal"] for o in operators), default=0),
        "peak_rss_bytes": jvm.peak_rss_bytes(),
    }
    spark.stop()
    return found


def run_empty_tasks() -> dict[str, float]:
    """Runs jobs of many tasks without work. Returns what the driver takes for one of them, at least."""
    spark = session.local("2g", {"spark.master": f"local[{_CORES}]"})
    jvm = Jvm.of_this_process()
    times = []
    for _ in range(_JOBS):
        cpu, started = jvm.cpu_of_threads(_NOT_DRIVER), time.perf_counter()
        spark.range(0, _EMPTY_TASKS, 1, _EMPTY_TASKS).write.format("noop").mode("overwrite").save()
        times.append((time.perf_counter() - started, jvm.cpu_of_threads(_NOT_DRIVER) - cpu))
    spark.stop()
    later = times[_JOBS // 2 :]
    return {
        "empty_task_seconds": min(seconds for seconds, _ in later) / _EMPTY_TASKS,
        "empty_task_driver_cpu_seconds": min(cpu for _, cpu in later) / _EMPTY_TASKS,
    }


def _data(point: Point, work: Path) -> Path:
    """The point's streams, written now or by an earlier point with the same rows."""
    if point.engine == "sync-join":
        root = work / f"sync-{point.rows}-{point.slices}"
        if not root.exists():
            unfinished = root.with_suffix(".unfinished")
            unfinished.mkdir(parents=True)
            rows = int(point.rows * point.slices / (1 + _SYNC_RIGHT_PER_LEFT))
            sync_streams.write(unfinished, rows, point.slices, point.slices * _SYNC_SLICE_S)
            unfinished.rename(root)
        return root
    hours = point.slices * _WINDOW_MINUTES / point.window_batches / 60
    left = int(point.rows * point.slices / (1 + _RIGHT_PER_LEFT))
    workload = Workload(left=left, slices=point.slices, hours=hours, value_bytes=point.value_bytes)
    return prepare(workload, work).path


def _grid(engine: str, rows: int, rows_per_partition: int) -> list[Point]:
    a_core = _A_CORE if engine == "tailrace" else _A_CORE[::3]
    partitions = [n * _CORES for n in a_core]
    fixed = [Point(engine, n, rows) for n in partitions]
    return list(dict.fromkeys([*fixed, *(Point(engine, n, n * rows_per_partition) for n in partitions)]))


def _measure(points: Sequence[Point], work: Path) -> list[dict[str, Any]]:
    runs = []
    for point in points:
        name = hashlib.sha256(json.dumps(asdict(point), sort_keys=True).encode()).hexdigest()[:12]
        kept = work / f"run-{name}.json"
        if kept.exists():
            runs.append(json.loads(kept.read_text()))
            continue
        data = _data(point, work)
        with tempfile.TemporaryDirectory(prefix="run-", dir=work) as scratch:
            once = json.dumps({"point": asdict(point), "data": str(data), "scratch": scratch})
            run = session.launch(__file__, ["--once", once])
        kept.write_text(json.dumps(run))
        runs.append(run)
        print(kept.read_text(), file=sys.stderr, flush=True)
    return runs


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--work", type=Path, help="keeps data and finished runs for the next call")
    parser.add_argument("--name", default="partitions", help="of the file in benchmarks/results")
    parser.add_argument(
        "--engines", nargs="+", choices=_ENGINES, default=["tailrace", "floor"], metavar="ENGINE"
    )
    parser.add_argument("--rows", type=int, default=32_000, help="a micro-batch, where they are fixed")
    parser.add_argument("--rows-per-partition", type=int, default=250, help="where those are fixed")
    parser.add_argument(
        "--shapes-only", action="store_true", help="the runs in other shapes alone, without the fits"
    )
    parser.add_argument("--once", type=json.loads, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.once is not None:
        once = arguments.once
        if once:
            found = run_once(Point(**once["point"]), Path(once["data"]), Path(once["scratch"]))
        else:
            found = run_empty_tasks()
        print(json.dumps(found))
        return
    with tempfile.TemporaryDirectory(prefix="tailrace-bench-") as temporary:
        work = arguments.work or Path(temporary)
        work.mkdir(parents=True, exist_ok=True)
        _other_shapes(arguments.name, work.resolve())
        if not arguments.shapes_only:
            _fitted(arguments, work.resolve())


def _other_shapes(name: str, work: Path) -> None:
    heading = report.heading(f"local[{_CORES}], 2g, window {_WINDOW_MINUTES} minutes")
    runs = _measure(_OTHER_SHAPES, work)
    report.save(f"{name}-other-shapes", [*heading, "", *table(runs), "", *(json.dumps(r) for r in runs)])


def _fitted(arguments: argparse.Namespace, work: Path) -> None:
    parameters = (
        f"{arguments.rows:,} rows a micro-batch, and {arguments.rows_per_partition:,} a partition, "
        f"local[{_CORES}], 2g, window {_WINDOW_MINUTES} minutes of 10 micro-batches"
    )
    heading = report.heading(parameters)
    grid = [p for e in arguments.engines for p in _grid(e, arguments.rows, arguments.rows_per_partition)]
    runs = _measure(grid, work)
    empty = session.launch(__file__, ["--once", "{}"])
    task, cpu = (empty[name] * 1e3 for name in ("empty_task_seconds", "empty_task_driver_cpu_seconds"))
    lines = [*heading, "", "time of a micro-batch = a + b x partitions + c x rows", *fits(runs), ""]
    lines += [
        f"a task of Spark's without work, of {_EMPTY_TASKS:,}: {task:.3f} ms, CPU of the driver {cpu:.3f} ms",
        "",
    ]
    report.save(arguments.name, [*lines, *table(runs), "", *(json.dumps(run) for run in [*runs, empty])])


if __name__ == "__main__":
    main()
