"""Compares the label join on each minor version of Spark, with what that version takes without a join.

    python benchmarks/spark_versions.py --runs 3

The data are those of the feature-label workload. Each minor version runs the join, and its own floor: both
streams are read and shuffled. They take turns, each in a fresh JVM, --runs times over. A version's number is
the join's rate as a share of its floor's. Prints the table and writes it to benchmarks/results/versions.txt.
Versions that the environment lacks are installed into the user's cache first.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import report
from turns import run_alone
from workload import Streams, Workload, prepare

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "python"))

from spark_minor import search_path

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runs import RunResult

_MINORS = ("4.1", "4.2", "4.3")
_TO = "4.2"
_BAR = 0.95
_ENGINES = ("tailrace", "floor")


def _run(engine: str, minor: str, streams: Streams, work: Path) -> RunResult:
    result = run_alone(engine, streams, "30 minutes", work, {"PYTHONPATH": search_path(minor)})
    if not result.versions["spark"].startswith(f"{minor}."):
        raise RuntimeError(f"Spark {result.versions['spark']} ran, and not {minor}")
    return replace(result, engine=f"{engine} on {minor}")


def _shares(runs: Sequence[RunResult]) -> tuple[list[str], bool]:
    def of(engine: str, minor: str, number: str) -> float:
        return float(median(getattr(run, number) for run in runs if run.engine == f"{engine} on {minor}"))

    def share(minor: str, number: str) -> float:
        return of("floor", minor, number) / of("tailrace", minor, number)

    lines = [
        f"{'the join as a share of its floor':<40}{'speed':>10}{'by CPU':>10}{f'to {_TO}':>10}{'bar':>8}"
    ]
    met = True
    for minor in _MINORS:
        speed, cpu = share(minor, "seconds"), share(minor, "cpu_seconds")
        relative = speed / share(_TO, "seconds")
        met &= relative >= _BAR
        bar = "" if minor == _TO else f"{_BAR:>8}"
        lines.append(f"{f'Spark {minor}':<40}{speed:>10.2f}{cpu:>10.2f}{relative:>10.2f}{bar}")
    return lines, met


def main() -> int:
    """Runs the command line. Returns the exit code: 1 below the bar."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--left", type=int, default=2_600_000, help="impressions")
    parser.add_argument("--slices", type=int, default=20, help="micro-batches with data")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tailrace-bench-") as folder:
        work = Path(folder).resolve()
        for minor in _MINORS:
            search_path(minor)
        streams = prepare(Workload(left=arguments.left, slices=arguments.slices), work)
        each = [(engine, minor) for minor in _MINORS for engine in _ENGINES]
        runs = []
        for i in range(arguments.runs):
            # To and fro, so that none always follows the same one.
            for engine, minor in each if i % 2 == 0 else reversed(each):
                runs.append(_run(engine, minor, streams, work))
                print(f"run {i + 1} of {runs[-1].engine}: {runs[-1].seconds:.1f} s", flush=True)
    rows = report.medians(runs, report.numbers(Workload().row_bytes, 2))
    shares, met = _shares(runs)
    found = {run.versions["spark"]: run.versions["java"] for run in runs}
    lines = [
        *report.heading(str(vars(arguments))),
        *(f"{f'spark {spark}':15}on {java}" for spark, java in sorted(found.items())),
        "",
        f"medians, runs each: {arguments.runs} (columns: README.md):",
        report.table(rows),
        "",
        *shares,
        "",
        "raw numbers, in the order of the runs:",
        *(json.dumps(asdict(run)) for run in runs),
    ]
    report.save("versions", lines)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
