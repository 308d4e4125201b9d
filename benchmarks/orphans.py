"""Measures what `orphans` costs a join: rate and state, with few labels and with many.

    python benchmarks/orphans.py --runs 3

The data are those of the feature-label workload, with a window of thirty minutes: one orphan per twenty left
rows, and labels for the share of them that the workload has; then labels for nine left rows in ten. The two
engines run in turn, --runs times over, each time in a fresh JVM. Prints the tables and writes them to
benchmarks/results/orphans.txt.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import report
from turns import compared
from workload import Workload

_ENGINES = ("tailrace", "tailrace-orphans")
_MOST_MATCH = 0.9


def main() -> int:
    """Runs the command line. Returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--left", type=int, default=1_000_000)
    parser.add_argument("--slices", type=int, default=60)
    a = parser.parse_args()
    few = Workload(left=a.left, slices=a.slices)
    many = Workload(left=a.left, slices=a.slices, match_share=_MOST_MATCH)
    lines = report.heading(str(vars(a)))
    with tempfile.TemporaryDirectory(prefix="tailrace-bench-") as folder:
        work = Path(folder).resolve()
        lines += ["", f"{few.match_share:.0%} of the left rows have a label:"]
        lines += compared(_ENGINES, few, "30 minutes", a.runs, work)
        lines += [f"{many.match_share:.0%} of them have one:"]
        lines += compared(_ENGINES, many, "30 minutes", a.runs, work)
    report.save("orphans", lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
