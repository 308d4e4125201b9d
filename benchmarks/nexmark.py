"""Compares Tailrace, Spark and Flink on Nexmark's queries 20, 8, and 20 as a left join.

    python benchmarks/nexmark.py --runs 3

Maven builds Flink's programs, which are in `benchmarks/peers`. Flink runs the published SQL (`flink-sql`),
an interval join in SQL (`flink-interval`), and a KeyedCoProcessFunction (`flink-process`), on RocksDB.
First each engine runs each query over --checked events, and all rows that come out are compared with the
answer by brute force, all columns of each. Then the engines run in turn, each time in a fresh JVM. Leaves
the table in benchmarks/results/nexmark.txt. Exit code 1 if an output is wrong: then nothing is timed.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import flink
import nexmark_events
import report
from nexmark_answers import expected, read_spark, read_tsv
from nexmark_queries import DELAY, NEXMARK_QUERIES, READS, WINDOW
from runs import RunSpec, launch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nexmark_answers import Answer
    from nexmark_events import Events

_TAILRACE, _SPARK, _FLINK = "tailrace", "spark-format-4", "flink"
# The published SQL of query 20 as a left join gives rows and takes them back: its output isn't the others'.
_ENGINES = {
    "q20": (_TAILRACE, _SPARK, "flink-sql", "flink-interval", "flink-process"),
    "q8": (_TAILRACE, _SPARK, "flink-sql", "flink-process"),
    "q20-left": (_TAILRACE, _SPARK, "flink-interval", "flink-process"),
}
_RESULT = re.compile(r"RESULT secs=([\d.]+) cpu=([\d.]+)")


@dataclass(frozen=True)
class _Cost:
    query: str
    engine: str
    rows: int
    seconds: float
    cpu_seconds: float


@dataclass(frozen=True)
class _Bench:
    """What all runs have in common: a directory of the comparison's own."""

    work: Path

    def run(self, query: str, engine: str, events: Events, *, checked: bool = False) -> tuple[_Cost, Answer]:
        """One run, and what has come out if that is to be checked."""
        rows = sum(events.rows[kind] for kind in READS[query])
        with tempfile.TemporaryDirectory(dir=self.work) as scratch:
            if engine.startswith(_FLINK):
                seconds, cpu, answer = self._run_flink(query, engine, events, Path(scratch), checked=checked)
            else:
                seconds, cpu, answer = _run_spark(query, engine, events, rows, Path(scratch), checked=checked)
        return _Cost(query, engine, rows, seconds, cpu), answer

    def _run_flink(
        self, query: str, engine: str, events: Events, scratch: Path, *, checked: bool
    ) -> tuple[float, float, Answer]:
        flat = events.path.with_name(f"{events.path.name}-{'-'.join(READS[query])}")
        if not flat.exists():
            nexmark_events.write_flat(events, READS[query], flat)
        quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
        out = scratch / "out.tsv"
        arguments = [engine.removeprefix(f"{_FLINK}-"), query, str(flat)]
        arguments += [str(out) if checked else "-", str(scratch)]
        command = flink.command("Nexmark", arguments, ["-XX:+UseG1GC", quiet])
        done = subprocess.run(command, capture_output=True, text=True, timeout=3600, check=False)
        found = _RESULT.search(done.stdout)
        if found is None:
            raise RuntimeError(f"Flink failed:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
        return float(found[1]), float(found[2]), read_tsv(query, out) if checked else Counter()


def _run_spark(
    query: str, engine: str, events: Events, rows: int, scratch: Path, *, checked: bool
) -> tuple[float, float, Answer]:
    spec = RunSpec(
        engine=f"{engine}-{query}",
        data=str(events.path),
        rows=rows,
        window=WINDOW,
        delay=DELAY,
        master="local[2]",
        partitions=2,
        memory="4g",
        conf={},
        scratch=str(scratch / "run"),
        checked=checked,
    )
    run = launch(spec, timeout=3600)
    return (
        run.seconds,
        run.cpu_seconds,
        read_spark(query, scratch / "run" / "output") if checked else Counter(),
    )


def _check(bench: _Bench, events: Events, engines: dict[str, Sequence[str]]) -> list[str]:
    """What has been found equal, or SystemExit."""
    lines = []
    for query, own in engines.items():
        right = expected(query, events.path)
        for engine in own:
            _, answer = bench.run(query, engine, events, checked=True)
            if answer != right:
                missing = right - answer
                found = f"{answer.total():,} rows for {right.total():,}, {missing.total():,} are missing"
                one = next(iter(missing), None)
                raise SystemExit(f"{query}, {engine}: {found}, for instance {one}: nothing was timed.")
            print(f"{query}, {engine}: all {answer.total():,} rows are right", flush=True)
        lines.append(
            f"{query}: {right.total():,} rows of {', '.join(own)} are equal to the brute-force answer"
        )
    return lines


def _time(
    bench: _Bench, events: Events, engines: dict[str, Sequence[str]], runs: int, skipped: Sequence[str]
) -> list[_Cost]:
    costs = []
    for i in range(runs):
        for query, own in engines.items():
            # Each round begins with another engine, so that none always follows the same one.
            first = i % len(own)
            for engine in (*own[first:], *own[:first]):
                if f"{engine}-{query}" in skipped:
                    continue
                cost, _ = bench.run(query, engine, events)
                costs.append(cost)
                print(f"run {i + 1}: {cost}", flush=True)
    return costs


def _table(costs: Sequence[_Cost]) -> list[str]:
    """The medians, and how many times as long the others take as Tailrace."""
    names = "".join(f"{name:>12}" for name in ("s", "rows/s", "CPU s", "CPU us/row", "x time", "x CPU"))
    lines = [f"{'query':10}{'engine':16}{names}"]
    for query in dict.fromkeys(cost.query for cost in costs):
        ours: tuple[float, float] | None = None
        for engine in _ENGINES[query]:
            own = [cost for cost in costs if (cost.query, cost.engine) == (query, engine)]
            if not own:
                continue
            seconds, cpu = median(c.seconds for c in own), median(c.cpu_seconds for c in own)
            rows = own[0].rows
            if engine == _TAILRACE:
                ours = seconds, cpu
            numbers = f"{seconds:12.1f}{rows / seconds:12,.0f}{cpu:12.1f}{cpu / rows * 1e6:12.1f}"
            multiples = f"{seconds / ours[0]:12.2f}{cpu / ours[1]:12.2f}" if ours else ""
            lines.append(f"{query:10}{engine:16}{numbers}{multiples}")
    return lines


def main() -> int:
    """Compares, and leaves the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--events", type=int, default=5_000_000)
    parser.add_argument("--checked", type=int, default=500_000, help="events of the comparison of outputs")
    parser.add_argument("--slices", type=int, default=20, help="micro-batches of Spark's")
    parser.add_argument("--queries", nargs="+", choices=tuple(_ENGINES), default=list(_ENGINES))
    parser.add_argument(
        "--skip", nargs="+", default=[], choices=tuple(NEXMARK_QUERIES), help="engines not timed"
    )
    parser.add_argument("--name", default="nexmark", help="of the file in benchmarks/results")
    a = parser.parse_args()
    engines: dict[str, Sequence[str]] = {query: _ENGINES[query] for query in a.queries}
    header = report.heading(str(vars(a)))
    with tempfile.TemporaryDirectory(prefix="tailrace-bench-") as folder:
        bench = _Bench(Path(folder).resolve())
        flink.build()
        agreed = _check(bench, nexmark_events.write(bench.work / "small", a.checked, a.slices), engines)
        events = nexmark_events.write(bench.work / "large", a.events, a.slices)
        costs = _time(bench, events, engines, a.runs, a.skip)
    legend = "x time, x CPU: how many times as long as Tailrace, in seconds and in CPU seconds"
    report.save(a.name, [*header, "", *agreed, "", *_table(costs), "", legend, "", "raw:", *map(str, costs)])
    return 0


if __name__ == "__main__":
    sys.exit(main())
