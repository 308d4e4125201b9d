"""Measures what `amend_for` costs a join: state and rate, with late labels and without.

    python benchmarks/amendments.py --runs 3

The data are those of the feature-label workload, with a window of thirty minutes and `amend_for` of two
hours. It is compared with the join without it, and with one that holds its rows for two hours more. Then one
label in twenty comes up to two hours late, with and without `amend_for`. Each engine runs in turn, --runs
times over, each time in a fresh JVM. Prints the tables and writes them to benchmarks/results/amendments.txt.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import report
from turns import in_turn
from workload import Workload, prepare

_LATE_SHARE = 0.05
_TWO_HOURS_MS = 7_200_000.0


def _compared(workload: Workload, engines: tuple[str, ...], times: int, work: Path) -> list[str]:
    runs = in_turn(engines, prepare(workload, work), "30 minutes", times, work)
    found = report.medians(runs, report.numbers(workload.row_bytes, 2))
    rows = {engine: found[engine] for engine in engines}
    return [report.table(rows), "", report.ratios(rows, to=engines[0])]


def main() -> int:
    """Runs the command line. Returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--left", type=int, default=1_000_000)
    parser.add_argument("--slices", type=int, default=60)
    a = parser.parse_args()
    in_time = Workload(left=a.left, slices=a.slices)
    late = Workload(left=a.left, slices=a.slices, late_share=_LATE_SHARE, late_ms=_TWO_HOURS_MS)
    lines = report.heading(str(vars(a)))
    with tempfile.TemporaryDirectory(prefix="tailrace-bench-") as folder:
        work = Path(folder).resolve()
        lines += ["", "no label is late:"]
        lines += _compared(in_time, ("tailrace", "tailrace-amends", "tailrace-waits"), a.runs, work)
        lines += [f"one label in {1 / _LATE_SHARE:.0f} is late:"]
        lines += _compared(late, ("tailrace", "tailrace-amends"), a.runs, work)
    report.save("amendments", lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
