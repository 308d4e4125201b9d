"""Compares `tailrace.examples` of one label with `tailrace.join`, in a JVM that is warm.

    python benchmarks/one_label.py --rounds 9

`examples.py` runs both in cold JVMs, where the compiler's work on what only the examples have counts, too.
Here they take turns in one JVM, as micro-batches of a stream do that has run for a while. Every second round
begins with the other one. The first rounds aren't counted. Prints the table and writes it to
benchmarks/results/one-label.txt.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import report
from examples import deal_out
from label_queries import LABEL_QUERIES
from measure import Jvm
from queries import stream
from rounds import compared, in_turn, table
from session import local
from workload import Workload, prepare

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ENGINES = ("examples-1", "join-1")
_BAR = 0.98


def _made(spark: SparkSession, data: Path, engine: str) -> DataFrame:
    left = stream(spark, f"{data}/left", "2 minutes", "l_")
    return LABEL_QUERIES[engine](left, [stream(spark, f"{data}/right-0", "2 minutes", "r0_")])


def main() -> int:
    """Runs the command line. Returns the exit code: 1 below the bar."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--left", type=int, default=2_600_000, help="impressions")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--cold", type=int, default=2, help="rounds that aren't counted")
    a = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tailrace-bench-") as folder:
        work = Path(folder).resolve()
        data = deal_out(prepare(Workload(left=a.left), work))[1]
        spark = local("4g", {"spark.sql.streaming.numRecentProgressUpdates": "100000"})
        jvm = Jvm.of_this_process()
        costs = in_turn(_ENGINES, partial(_made, spark, data.path), data.rows, work, jvm, a)
        spark.stop()
    rate, cpu = compared(costs["examples-1"], costs["join-1"])
    lines = [*report.heading(str(vars(a))), "", *table(costs), ""]
    lines.append(f"examples-1 against join-1, median of rounds: {rate:.3f}, by CPU {cpu:.3f} (bar {_BAR})")
    report.save("one-label", lines)
    return 0 if rate >= _BAR else 1


if __name__ == "__main__":
    sys.exit(main())
