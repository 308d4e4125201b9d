"""Measures what `orphans` and late impressions cost a join, in a JVM that is warm.

    python benchmarks/join_options.py --rounds 5

The data are those of the feature-label workload: a window of thirty minutes, and one orphan per twenty left
rows. Labels are for the share of left rows that the workload has, or for nine in ten. Left rows are punctual,
or one in twenty is up to twenty minutes late, within its window. In each case the join with the option and
the one without it take turns. The first rounds aren't counted. Prints the tables and writes them to
benchmarks/results/join-options.txt.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import report
from measure import Jvm
from queries import QUERIES, stream
from rounds import compared, in_turn, table
from session import local
from workload import Workload, prepare

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_LATE_SHARE, _TWENTY_MINUTES_MS = 0.05, 1_200_000.0
_BAR = 0.95


def _cases(left: int) -> dict[str, tuple[tuple[str, str], Workload]]:
    """The engine with the option, the one without it, and what both read."""
    orphans, late = ("tailrace-orphans", "tailrace"), ("tailrace", "tailrace-no-late-impressions")
    late_rows = Workload(left=left, late_left_share=_LATE_SHARE, late_ms=_TWENTY_MINUTES_MS)
    return {
        "orphans, 30 % of the left rows have a label": (orphans, Workload(left=left)),
        "orphans, 90 % have one": (orphans, Workload(left=left, match_share=0.9)),
        "late impressions, none is late": (late, Workload(left=left)),
        "late impressions, 5 % are late": (late, late_rows),
    }


def _made(spark: SparkSession, data: Path, engine: str) -> DataFrame:
    left, right = (stream(spark, f"{data}/{side}", "2 minutes", f"{side[0]}_") for side in ("left", "right"))
    return QUERIES[engine](left, right, "30 minutes", 2)


def main() -> int:
    """Runs the command line. Returns the exit code: 1 below the bar."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--left", type=int, default=2_600_000, help="impressions")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cold", type=int, default=2, help="rounds that aren't counted")
    a = parser.parse_args()
    lines = report.heading(str(vars(a)))
    rates = []
    with tempfile.TemporaryDirectory(prefix="tailrace-bench-") as folder:
        work = Path(folder).resolve()
        spark = local("4g", {"spark.sql.streaming.numRecentProgressUpdates": "100000"})
        jvm = Jvm.of_this_process()
        for name, (engines, workload) in _cases(a.left).items():
            data = prepare(workload, work)
            costs = in_turn(engines, partial(_made, spark, data.path), data.rows, work, jvm, a)
            shutil.rmtree(data.path)
            rate, cpu = compared(*costs.values())
            rates.append(rate)
            lines += ["", f"{name}:", *table(costs)]
            lines.append(f"with the option, median of rounds: {rate:.3f}, by CPU {cpu:.3f} (bar {_BAR})")
        spark.stop()
    report.save("join-options", lines)
    return 0 if min(rates) >= _BAR else 1


if __name__ == "__main__":
    sys.exit(main())
