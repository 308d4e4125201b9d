"""Compares this checkout with another one, an earlier commit, on the workloads of the others.

    git worktree add ../before COMMIT    # and build its jar into its python/tailrace/jars
    python benchmarks/before_after.py --before ../before --commit COMMIT --runs 9

Runs both at the same time, each in a fresh JVM bound to a core of its own, over the same data. Each checkout
runs its own benchmarks/before_after.py, because names in the API may differ: where the earlier commit lacks a
workload, give it the newest benchmarks/ that still calls its API. A machine that is slow for a while is slow
for both; the cores change hands from pair to pair. Above 1 this checkout is faster. Prints the table and
writes it to benchmarks/results/NAME.txt.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import forest
import report
import session
import sync_streams
from runs import RunSpec, launch
from tailrace.kafka import run_kafka
from workload import Workload, prepare

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_HERE = Path(__file__).parent
_JOINS = {
    "join": Workload(left=2_600_000, slices=20),
    "join-200-slices": Workload(left=2_600_000, slices=200),
    # The same rate of rows for longer: the JVM's start and its compiler matter less.
    "join-12-hours": Workload(left=7_800_000, slices=60, hours=12.0),
    # In a JVM that has run it before: the order in which it compiles makes cold runs differ by a tenth.
    "join-warm": Workload(left=2_600_000, slices=20),
}
# How often a workload runs before in the JVM that is measured.
_WARM = {"join-warm": 2, "replays-warm": 1, "recursion-warm": 1}
_RECURSIONS = ("recursion", "recursion-warm")
_REPLAYS = ("replays", "replays-warm", "replays-100000-producers")
_WORKLOADS = (*_JOINS, *_REPLAYS, "watermark", "sync-join", *_RECURSIONS)
_RECORDS = 5_000_000


def _write(workload: str, data: Path, sides: Mapping[str, Path], stack: ExitStack) -> str:
    """Makes the data of a workload, and says where they are."""
    if workload in _JOINS:
        prepare(_JOINS[workload], data)
        return str(data)
    if workload in _RECURSIONS:
        data.mkdir()
        forest.make(data, 1_000_000, 100_000)
        return str(data)
    if workload == "watermark":
        session.launch(str(_HERE / "watermark" / "overhead.py"), ["--write", "--data", str(data)])
        return str(data)
    if workload == "sync-join":
        data.mkdir()
        sync_streams.write(data, 2_000_000, 30, 300)
        return str(data)
    broker = stack.enter_context(run_kafka())
    for side, checkout in sides.items():
        broker.create_topic(side, 8)
        _fill(workload, broker.servers, side, checkout)
    return broker.servers


def _fill(workload: str, servers: str, side: str, checkout: Path) -> None:
    """Writes a side's topic with its own package, whose form of metadata the other one may not know."""
    producers = "100000" if workload == "replays-100000-producers" else "1"
    step = ["--load", "--servers", servers, "--topic", side, "--records", str(_RECORDS)]
    script = [sys.executable, str(_HERE / "replay_filter.py"), *step, "--producers", producers]
    subprocess.run(script, env=_environment(checkout), stdout=subprocess.DEVNULL, check=True)


def _environment(checkout: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(checkout / "python"), "SPARK_LOCAL_IP": "127.0.0.1"}


def run_once(workload: str, data: str, scratch: Path, side: str) -> dict[str, Any]:
    """One run, with the package that this process imports."""
    if workload in _JOINS:
        streams = prepare(_JOINS[workload], Path(data))
        spec = RunSpec(
            engine="tailrace",
            data=str(streams.path),
            rows=streams.rows,
            window="30 minutes",
            delay="2 minutes",
            master="local[2]",
            partitions=2,
            memory="4g",
            conf={},
            scratch=str(scratch),
            warm=_WARM.get(workload, 0),
        )
        return asdict(launch(spec, timeout=900))
    step, warm = ["--once", "tailrace"], str(_WARM.get(workload, 0))
    if workload == "watermark":
        script, more = _HERE / "watermark" / "overhead.py", ["--data", data, "--checkpoint", str(scratch)]
    elif workload in _RECURSIONS:
        scratch.mkdir()
        for part in ("nodes", "parents"):
            (scratch / part).symlink_to(Path(data) / part)
        script, more = _HERE / "recursion.py", ["--root", str(scratch), "--warm", warm]
    elif workload == "sync-join":
        scratch.mkdir()
        script, more = _HERE / "sync_join.py", ["--data", data, "--scratch", str(scratch)]
    else:
        script = _HERE / "replay_filter.py"
        more = [
            "--servers",
            data,
            "--topic",
            side,
            "--batch",
            str(_RECORDS // 10),
            "--checkpoint",
            str(scratch),
            "--warm",
            warm,
        ]
    return dict(session.launch(str(script), [*step, *more]))


def _start(
    workload: str, data: str, side: tuple[str, Path], scratch: Path, core: int
) -> subprocess.Popen[str]:
    name, checkout = side
    step = ["--once", workload, "--data", data, "--scratch", str(scratch), "--core", str(core)]
    return subprocess.Popen(
        [sys.executable, str(checkout / "benchmarks" / "before_after.py"), *step, "--side", name],
        env=_environment(checkout),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def _pairs(workload: str, before: Path, runs: int) -> list[dict[str, Any]]:
    """The first pair warms up what the machine caches, and doesn't count."""
    sides = {"before": before, "after": _HERE.parent}
    found = []
    with tempfile.TemporaryDirectory(prefix="tailrace-bench-") as name, ExitStack() as stack:
        data = _write(workload, Path(name) / "data", sides, stack)
        for n in range(runs + 1):
            started = {
                side: _start(workload, data, (side, checkout), Path(name) / f"{side}-{n}", (n + place) % 2)
                for place, (side, checkout) in enumerate(sides.items())
            }
            for side, process in started.items():
                out, _ = process.communicate()
                if process.returncode != 0:
                    raise RuntimeError(f"{workload} of {side} failed: run it alone with --once")
                run = {"workload": workload, "side": side, "pair": n, **json.loads(out.splitlines()[-1])}
                shutil.rmtree(Path(name) / f"{side}-{n}")
                times = f"{run['seconds']:.2f} s, {run['cpu_seconds']:.2f} s of CPU"
                print(f"{workload}, pair {n}, {side}: {times}", flush=True)
                if n > 0:
                    found.append(run)
    return found


def _table(runs: Sequence[dict[str, Any]]) -> list[str]:
    head = ("s before", "s after", "CPU before", "CPU after")
    lines = [
        f"{'workload':26}" + "".join(f"{h:>12}" for h in head) + "   speed: median (least, most)   by CPU"
    ]
    for workload in dict.fromkeys(run["workload"] for run in runs):
        of = [run for run in runs if run["workload"] == workload]
        sides = [[run for run in of if run["side"] == side] for side in ("before", "after")]
        cells = [median(run[what] for run in side) for what in ("seconds", "cpu_seconds") for side in sides]
        line = f"{workload:26}" + "".join(f"{cell:12.2f}" for cell in cells)
        for what in ("seconds", "cpu_seconds"):
            ratio = sorted(b[what] / a[what] for b, a in zip(*sides, strict=True))
            line += f"   {median(ratio):6.3f} ({ratio[0]:.3f}, {ratio[-1]:.3f})"
        lines.append(line)
    return lines


def main() -> int:
    """Compares, and leaves the table; or makes one run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--before", type=Path, help="the other checkout, with its jar")
    parser.add_argument("--commit", help="what the other checkout is called in the table")
    parser.add_argument("--workloads", nargs="+", choices=_WORKLOADS, default=list(_WORKLOADS))
    parser.add_argument("--runs", type=int, default=9, help="pairs of each workload (default: 9)")
    parser.add_argument("--name", default="before-after")
    inner = parser.add_argument_group("one run, in a process of its own")
    inner.add_argument("--once", choices=_WORKLOADS)
    inner.add_argument("--data")
    inner.add_argument("--scratch", type=Path)
    inner.add_argument("--core", type=int)
    inner.add_argument("--side", choices=("before", "after"), default="after")
    a = parser.parse_args()
    if a.once:
        # Its JVM, with compiler and collector, inherits it.
        os.sched_setaffinity(0, {a.core})
        print(json.dumps(run_once(a.once, a.data, a.scratch, a.side)))
        return 0
    if a.before is None:
        parser.error("--before is missing")
    kind = f"before: {a.commit or 'unnamed'}, {a.runs} pairs of each workload, side by side, a core each"
    header = report.heading(kind)
    runs: list[dict[str, Any]] = []
    for workload in a.workloads:
        runs += _pairs(workload, a.before.resolve(), a.runs)
    report.save(a.name, [*header, "", *_table(runs), "", *(json.dumps(run) for run in runs)])
    return 0


if __name__ == "__main__":
    sys.exit(main())
