"""Measures what `orphans` costs a join, with few labels and with many, in a JVM that is warm.

    python benchmarks/orphans.py --rounds 5

The data are those of the feature-label workload, with a window of thirty minutes: one orphan per twenty left
rows, and labels for the share of them that the workload has; then labels for nine left rows in ten. The join
with and without orphans take turns. The first rounds aren't counted. Prints the tables and writes them to
benchmarks/results/orphans.txt.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import report
from measure import Jvm
from queries import QUERIES, stream
from rounds import Cost, compared, run, table
from session import local
from workload import Workload, prepare

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from workload import Streams

_ENGINES = ("tailrace-orphans", "tailrace")
_MOST_MATCH = 0.9
_BAR = 0.95


def _made(spark: SparkSession, data: Path, engine: str) -> DataFrame:
    left, right = (stream(spark, f"{data}/{side}", "2 minutes", f"{side[0]}_") for side in ("left", "right"))
    return QUERIES[engine](left, right, "30 minutes", 2)


def _in_turn(spark: SparkSession, jvm: Jvm, data: Streams, a: argparse.Namespace) -> dict[str, list[Cost]]:
    costs: dict[str, list[Cost]] = {engine: [] for engine in _ENGINES}
    for i in range(a.cold + a.rounds):
        for engine in _ENGINES[:: 1 if i % 2 == 0 else -1]:
            cost = run(partial(_made, spark, data.path, engine), f"{data.path}-{engine}-{i}", jvm)
            if cost.rows != data.rows:
                raise RuntimeError(f"{engine} has read {cost.rows} rows of {data.rows}")
            print(f"round {i + 1}, {engine}: {cost.seconds:.2f} s, CPU {cost.cpu:.2f} s", flush=True)
            if i >= a.cold:
                costs[engine].append(cost)
    return costs


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
        spark = local("4g", {"spark.sql.streaming.numRecentProgressUpdates": "100000"})
        jvm = Jvm.of_this_process()
        for workload in (Workload(left=a.left), Workload(left=a.left, match_share=_MOST_MATCH)):
            data = prepare(workload, Path(folder).resolve())
            costs = _in_turn(spark, jvm, data, a)
            rate, cpu = compared(costs["tailrace-orphans"], costs["tailrace"])
            rates.append(rate)
            lines += ["", f"{workload.match_share:.0%} of the left rows have a label:", *table(costs), ""]
            lines.append(f"with orphans, median of rounds: {rate:.3f}, by CPU {cpu:.3f} (bar {_BAR})")
        spark.stop()
    report.save("orphans", lines)
    return 0 if min(rates) >= _BAR else 1


if __name__ == "__main__":
    sys.exit(main())
