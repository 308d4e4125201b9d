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
from turns import in_turn
from workload import Workload, prepare

_ENGINES = ("tailrace-first", "tailrace-first-decided", "tailrace-inner", "tailrace-inner-exactly-one")


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
    with tempfile.TemporaryDirectory(prefix="tailrace-bench-") as folder:
        work = Path(folder).resolve()
        runs = in_turn(_ENGINES, prepare(workload, work), "30 days", a.runs, work)
    rows = report.medians(runs, report.numbers(workload.row_bytes, 2))
    lines = [*report.heading(str(vars(a))), "", report.table(rows), ""]
    lines += [report.ratios({e: rows[e] for e in pair}, to=pair[0]) for pair in (_ENGINES[:2], _ENGINES[2:])]
    report.save("decided", lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
