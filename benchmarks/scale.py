"""Compares Tailrace with Flink and Spark on the same rows, with their checkpoints in the same place.

    python benchmarks/scale.py --local --engines tailrace spark-format-4 flink-heap flink-rocksdb --name peers
    python benchmarks/scale.py --window '24 hours' --slices 1000 --hours 48 --equal-commits

All engines read the same data from the local disk. With `--local` their checkpoints are on it, too. Otherwise
they are in one S3Proxy, where each request takes 30 ms: Tailrace and Spark use S3A, Flink its own S3 file
system. `--gateway PROGRAM` takes a store that uses less of the processors and answers at once. Each run has a
fresh JVM with two task slots and a fresh store; the engines take turns. Maven builds Flink's programs, which
are in `benchmarks/peers`, if they aren't built yet.

Tailrace commits each micro-batch, and Flink each checkpoint: one in 10 seconds, or with `--equal-commits` one
per micro-batch of Tailrace: Flink's source reads the rows of a slice and waits for a checkpoint. `--limit`
ends a run of Flink, and the table has the rows until then.
Other regimes have programs of their own: see `benchmarks/README.md`.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import flink
import report
from runs import RunSpec, launch
from workload import Streams, Workload, prepare

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "python"))
from gateway import Gateway, run_gateway
from stores import S3, run_s3

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

_ENGINES = ("tailrace", "spark-format-4", "flink-heap", "flink-rocksdb")
# Flink's two readers take every other record. Spark's two tasks take a file's row groups.
_ROW_GROUP = 32_768
_COORDINATOR = "org.apache.flink.runtime.checkpoint.CheckpointCoordinator"
_RESULT = re.compile(r"rows=(\d+) secs=([\d.]+) .*? out=(\d+) labels=(\d+) .*?cpu=([\d.]+)s .*?rss=(\d+)MiB")


class _LocalDisk:
    """Checkpoints on the disk that has the data.

    Attributes:
        settings: of a Spark session: none.
    """

    settings: Mapping[str, str] = {}

    def __init__(self, work: Path) -> None:
        self._work = work

    def url(self, path: str) -> str:
        """The checkpoint's location."""
        return f"{self._work}/{path}"

    def cpu_seconds(self) -> float:
        """There is no process of its own."""
        return 0.0


@contextmanager
def _run_store(
    gateway: Path | None, latency: int, work: Path, *, local: bool
) -> Generator[S3 | Gateway | _LocalDisk]:
    if local:
        with tempfile.TemporaryDirectory(prefix="checkpoints-", dir=work) as folder:
            yield _LocalDisk(Path(folder))
    elif gateway:
        with run_gateway(gateway, work) as store:
            yield store
    else:
        # It keeps its objects in memory. Its collector must not work beside the engine.
        with run_s3(work, ["-Xmx8g", "-XX:+UseParallelGC"]) as proxy:
            proxy.set_latency(latency)
            yield proxy


@dataclass(frozen=True)
class _Flink:
    """How Flink runs: its data, the window, and the records of a reader between two commits."""

    flat: Path
    minutes: int
    records: int | None
    limit: int


def _flink(backend: str, given: _Flink, store: S3 | Gateway | _LocalDisk, work: Path) -> dict[str, Any]:
    """One run of Flink's program. It says what it has measured in a line of its own."""
    work.mkdir()
    checkpoints = store.url(f"flink/{work.name}").replace("s3a:", "s3:")
    options = {
        "execution.checkpointing.interval": "10 s" if given.records is None else "10 ms",
        "execution.checkpointing.dir": f"file://{checkpoints}" if checkpoints[0] == "/" else checkpoints,
        "state.backend.rocksdb.timer-service.factory": "HEAP",
        **({} if isinstance(store, _LocalDisk) else _s3_options(store)),
    }
    log = "-Dorg.slf4j.simpleLogger."
    quiet = [f"{log}defaultLogLevel=error", f"{log}log.{_COORDINATOR}=info"]
    properties = [f"-Dwindow.minutes={given.minutes}", f"-Dlimit.seconds={given.limit}"]
    if given.records is not None:
        properties.append(f"-Dgate.records={given.records}")
    arguments = ["group", backend, str(given.flat), "-", str(work), *(f"{k}={v}" for k, v in options.items())]
    command = flink.command("FlinkJoin", arguments, [*quiet, *properties])
    done = subprocess.run(command, capture_output=True, text=True, timeout=3600, check=False)
    found = _RESULT.search(done.stdout)
    if found is None:
        raise RuntimeError(f"Flink failed:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    rows, seconds, out, labels, cpu, rss = found.groups()
    commits = done.stderr.count("Completed checkpoint ")
    numbers = {"rows": int(rows), "out": int(out), "labels": int(labels), "commits": commits}
    costs = {"seconds": float(seconds), "cpu_seconds": float(cpu), "peak_rss_bytes": int(rss) * 2**20}
    return costs | numbers | {"versions": {"flink": flink.version()}}


def _s3_options(store: S3 | Gateway) -> dict[str, str]:
    s3a = "spark.hadoop.fs.s3a."
    return {
        "s3.endpoint": store.settings[f"{s3a}endpoint"],
        "s3.endpoint.region": "us-east-1",
        "s3.directory.marker.retention": "keep",  # the gateway can't delete those of parents
        "s3.path.style.access": "true",
        "s3.access-key": store.settings[f"{s3a}access.key"],
        "s3.secret-key": store.settings[f"{s3a}secret.key"],
    }


def _spark(
    engine: str, streams: Streams, window: str, store: S3 | Gateway | _LocalDisk, work: Path
) -> dict[str, Any]:
    spec = RunSpec(
        engine=engine,
        data=str(streams.path),
        rows=streams.rows,
        window=window,
        delay="2 minutes",
        master="local[2]",
        partitions=2,
        memory="4g",
        conf=dict(store.settings),
        scratch=str(work),
        # Where it is local, the run measures what it writes to it.
        checkpoint="" if isinstance(store, _LocalDisk) else store.url(f"{engine}/{work.name}"),
    )
    run = asdict(launch(spec, timeout=3600))
    return run | {"commits": run["batches"]}


def _table(runs: Sequence[dict[str, Any]]) -> list[str]:
    titles = f"{'engine':16}{'s':>10}{'rows':>12}{'rows/s':>12}{'CPU us/row':>12}{'commits':>10}"
    lines = [f"{titles}   Tailrace's multiple, by time and by CPU"]
    ours: tuple[float, float] | None = None
    for engine in sorted({run["engine"] for run in runs}, key=_ENGINES.index):
        own = [run for run in runs if run["engine"] == engine]

        def middle(number: Callable[[dict[str, Any]], float], own: Sequence[dict[str, Any]] = own) -> float:
            return median(map(number, own))

        rate = middle(lambda run: run["rows"] / run["seconds"])
        cpu = middle(lambda run: run["cpu_seconds"] / run["rows"])
        line = (
            f"{engine:16}{middle(lambda run: run['seconds']):10.1f}{middle(lambda run: run['rows']):12,.0f}"
        )
        line += f"{rate:12,.0f}{cpu * 1e6:12.1f}{middle(lambda run: run['commits']):10.0f}"
        if ours is not None:
            line += f"   {ours[0] / rate:.2f}   {cpu / ours[1]:.2f}"
        if engine == "tailrace":
            ours = rate, cpu
        lines.append(line)
    return lines


def _minutes(window: str) -> int:
    number, unit = window.split()
    return int(number) * {"minute": 1, "hour": 60}[unit.removesuffix("s")]


def main() -> int:
    """Compares, and leaves the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--window", default="30 minutes")
    parser.add_argument("--left", type=int, default=2_600_000)
    parser.add_argument("--slices", type=int, default=20)
    parser.add_argument("--hours", type=float, default=4.0, help="event time of the data (default: 4)")
    parser.add_argument("--latency", type=int, default=30, help="of each request, in ms (default: 30)")
    parser.add_argument("--equal-commits", action="store_true", help="Flink commits with each slice")
    parser.add_argument("--limit", type=int, default=3000, help="of a run of Flink's, in s (default: 3000)")
    without_spark = [engine for engine in _ENGINES if engine != "spark-format-4"]
    parser.add_argument("--engines", nargs="+", choices=_ENGINES, default=without_spark)
    parser.add_argument("--local", action="store_true", help="checkpoints on the local disk")
    parser.add_argument("--gateway", type=Path, help="Versity's gateway, to be used instead of S3Proxy")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--name", default="flink-s3")
    a = parser.parse_args()
    runs: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="tailrace-bench-") as name:
        work = Path(name)
        workload = Workload(left=a.left, slices=a.slices, hours=a.hours, row_group=_ROW_GROUP)
        streams = prepare(workload, work / "data")
        flat = work / "data.bin"
        flink.build()
        flink.write_flat(streams.path, flat)
        records = -(-streams.rows // (2 * a.slices)) if a.equal_commits else None
        given = _Flink(flat, _minutes(a.window), records, a.limit)
        for n in range(a.runs):
            turn = n % len(a.engines)
            for engine in (*a.engines[turn:], *a.engines[:turn]):
                scratch = work / f"{engine}-{n}"
                with _run_store(a.gateway, a.latency, work, local=a.local) as store:
                    before = store.cpu_seconds()
                    if engine.startswith("flink-"):
                        run = _flink(engine.removeprefix("flink-"), given, store, scratch)
                    else:
                        run = _spark(engine, streams, a.window, store, scratch)
                    run |= {"engine": engine, "run": n, "store_cpu_seconds": store.cpu_seconds() - before}
                runs.append(run)
                times = f"{run['seconds']:.1f} s, {run['cpu_seconds']:.1f} s of CPU"
                print(f"{engine}, {n}: {times}", flush=True)
    right = streams.rows - streams.left_rows
    kept = "Versity's gateway" if a.gateway else f"S3Proxy, {a.latency} ms a request,"
    place = "checkpoints on the local disk" if a.local else f"{kept} on the same cores"
    kind = (
        f"{streams.left_rows:,} left rows and {right:,} right ones in {a.slices} slices of {a.hours} hours, "
        f"window {a.window}; "
        f"Flink checkpoints {'with each slice' if a.equal_commits else 'each 10 s'}; {place}"
    )
    report.save(a.name, [*report.heading(kind), "", *_table(runs), "", *map(json.dumps, runs)])
    return 0


if __name__ == "__main__":
    sys.exit(main())
