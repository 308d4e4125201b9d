"""Compares joins whose rows leave when they are decided with joins that hold them: state and rate.

    python benchmarks/decided.py --runs 3

The data are those of the feature-label workload, with a window of thirty days: nearly all left rows have a
label, within a minute. Each engine runs in turn, --runs times over, each time in a fresh JVM. Prints the
table and writes it to benchmarks/results/decided.txt.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import report
from runs import RunResult, RunSpec, launch
from workload import Streams, Workload, prepare

_ENGINES = ("tailrace-first", "tailrace-first-decided", "tailrace-inner", "tailrace-inner-exactly-one")


def _run(engine: str, streams: Streams, work: Path) -> RunResult:
    with tempfile.TemporaryDirectory(prefix=f"{engine}-", dir=work) as scratch:
        spec = RunSpec(
            engine=engine,
            data=str(streams.path),
            rows=streams.rows,
            window="30 days",
            delay="2 minutes",
            master="local[2]",
            partitions=2,
            memory="4g",
            conf={},
            scratch=str(Path(scratch) / "run"),
        )
        return launch(spec, timeout=3600)


def main() -> int:
    """Runs the command line. Returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--left", type=int, default=1_000_000)
    parser.add_argument("--slices", type=int, default=60)
    a = parser.parse_args()
    workload = Workload(
        left=a.left, slices=a.slices, rows_per_key=1, match_share=0.99, label_delay_ms=15_000.0
    )
    runs = []
    with tempfile.TemporaryDirectory(prefix="tailrace-bench-") as folder:
        work = Path(folder).resolve()
        streams = prepare(workload, work)
        for i in range(a.runs):
            for engine in _ENGINES[:: 1 if i % 2 == 0 else -1]:
                runs.append(_run(engine, streams, work))
                print(f"run {i + 1} of {engine}: {runs[-1].seconds:.1f} s", flush=True)
    rows = report.medians(runs, report.numbers(workload.row_bytes, 2))
    lines = [*report.heading(str(vars(a))), "", report.table(rows), ""]
    lines += [report.ratios({e: rows[e] for e in pair}, to=pair[0]) for pair in (_ENGINES[:2], _ENGINES[2:])]
    report.save("decided", lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
