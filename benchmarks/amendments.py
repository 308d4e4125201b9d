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
from turns import compared
from workload import Workload

_LATE_SHARE = 0.05
_TWO_HOURS_MS = 7_200_000.0


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
        lines += compared(
            ("tailrace", "tailrace-amends", "tailrace-waits"), in_time, "30 minutes", a.runs, work
        )
        lines += [f"one label in {1 / _LATE_SHARE:.0f} is late:"]
        lines += compared(("tailrace", "tailrace-amends"), late, "30 minutes", a.runs, work)
    report.save("amendments", lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
