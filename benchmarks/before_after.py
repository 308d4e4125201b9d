"""Compares this checkout with another one, an earlier commit, on the workloads of the others.

    git worktree add ../before COMMIT    # and build its jar into its python/tailrace/jars
    python benchmarks/before_after.py --before ../before --commit COMMIT --runs 9

Runs both in turn, each time in a fresh JVM, over the same data and with this checkout's scripts: only the
package and its jar differ. The ratio is taken pair by pair, so that a machine that drifts doesn't decide it.
Above 1 this checkout is faster. Prints the table and writes it to benchmarks/results/NAME.txt.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import report
import session
import sync_streams
from runs import RunSpec, launch
from tailrace.kafka import run_kafka
from workload import Workload, prepare

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tailrace.kafka import KafkaBroker

    Once = Callable[[Path], dict[str, Any]]

_HERE = Path(__file__).parent
_WORKLOADS = ("join", "replays", "replays-100000-producers", "watermark", "sync-join")


@contextmanager
def package(checkout: Path) -> Iterator[None]:
    """Has processes that are started meanwhile import tailrace from a checkout."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = str(checkout / "python")
    try:
        yield
    finally:
        os.environ.pop("PYTHONPATH")
        if before is not None:
            os.environ["PYTHONPATH"] = before


def _join(data: Path) -> Once:
    streams = prepare(Workload(left=2_600_000, slices=20), data)

    def once(scratch: Path) -> dict[str, Any]:
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
        )
        found = launch(spec, timeout=600)
        return {
            "seconds": found.seconds,
            "cpu_seconds": found.cpu_seconds,
            "rows": found.rows,
            "jar": found.versions["jar_sha256"][:12],
        }

    return once


def _replays(broker: KafkaBroker, producers: int, records: int) -> Once:
    script = str(_HERE / "replay_filter.py")
    broker.create_topic("records", 8)
    where = ["--servers", broker.servers]
    session.launch(script, ["--load", *where, "--records", str(records), "--producers", str(producers)])
    step = ["--once", "tailrace", *where, "--batch", str(records // 10), "--checkpoint"]
    return lambda scratch: dict(session.launch(script, [*step, str(scratch)]))


def _watermark(data: Path) -> Once:
    script = str(_HERE / "watermark" / "overhead.py")
    session.launch(script, ["--write", "--data", str(data)])
    step = ["--once", "tailrace", "--data", str(data), "--checkpoint"]
    return lambda scratch: dict(session.launch(script, [*step, str(scratch)]))


def _sync(data: Path) -> Once:
    data.mkdir()
    sync_streams.write(data, 2_000_000, 30, 300)
    script = str(_HERE / "sync_join.py")

    def once(scratch: Path) -> dict[str, Any]:
        scratch.mkdir()
        step = ["--once", "tailrace", "--data", str(data), "--scratch", str(scratch)]
        return dict(session.launch(script, step))

    return once


def _prepare(workload: str, scratch: Path, stack: ExitStack) -> Once:
    data = scratch / workload
    if workload == "join":
        return _join(data)
    if workload == "watermark":
        return _watermark(data)
    if workload == "sync-join":
        return _sync(data)
    producers = 100_000 if workload != "replays" else 1
    return _replays(stack.enter_context(run_kafka()), producers, 5_000_000)


def _pairs(workload: str, before: Path, runs: int) -> list[dict[str, Any]]:
    """Warms the machine up with one run of each, then takes turns at who is first."""
    sides = {"before": before, "after": _HERE.parent}
    found = []
    with tempfile.TemporaryDirectory(prefix="tailrace-bench-") as name, ExitStack() as stack:
        once = _prepare(workload, Path(name), stack)
        for n in range(runs + 1):
            for side in sorted(sides, reverse=n % 2 == 0):
                scratch = Path(name) / f"{side}-{n}"
                with package(sides[side]):
                    run = {"workload": workload, "side": side, "pair": n, **once(scratch)}
                shutil.rmtree(scratch)
                if n > 0:
                    found.append(run)
                    times = f"{run['seconds']:.2f} s, {run['cpu_seconds']:.2f} s of CPU"
                    print(f"{workload}, pair {n}, {side}: {times}", flush=True)
    return found


def _table(runs: Sequence[dict[str, Any]]) -> list[str]:
    head = ("s before", "s after", "CPU before", "CPU after")
    lines = [
        f"{'workload':26}"
        + "".join(f"{h:>12}" for h in head)
        + "   speed: median (least, most)   CPU: the same"
    ]
    for workload in dict.fromkeys(run["workload"] for run in runs):
        sides = [
            [r for r in runs if (r["workload"], r["side"]) == (workload, s)] for s in ("before", "after")
        ]
        cells = [median(r[what] for r in side) for what in ("seconds", "cpu_seconds") for side in sides]
        line = f"{workload:26}" + "".join(f"{cell:12.2f}" for cell in cells)
        for what in ("seconds", "cpu_seconds"):
            ratio = sorted(b[what] / a[what] for b, a in zip(*sides, strict=True))
            line += f"   {median(ratio):6.3f} ({ratio[0]:.3f}, {ratio[-1]:.3f})"
        lines.append(line)
    return lines


def main() -> int:
    """Compares, and leaves the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--before", type=Path, required=True, help="the other checkout, with its jar")
    parser.add_argument("--commit", help="what the other checkout is called in the table")
    parser.add_argument("--workloads", nargs="+", choices=_WORKLOADS, default=list(_WORKLOADS))
    parser.add_argument("--runs", type=int, default=9, help="pairs of each workload (default: 9)")
    parser.add_argument("--name", default="before-after")
    a = parser.parse_args()
    header = report.heading(f"before: {a.commit or 'unnamed'}, {a.runs} pairs of each workload, local[2]")
    runs: list[dict[str, Any]] = []
    for workload in a.workloads:
        runs += _pairs(workload, a.before.resolve(), a.runs)
    report.save(a.name, [*header, "", *_table(runs), "", *(json.dumps(run) for run in runs)])
    return 0


if __name__ == "__main__":
    sys.exit(main())
