"""Compares `tailrace.examples` with chained joins, Tailrace's and plain Spark's, and with one join.

    python benchmarks/examples.py --runs 3

The data are those of the feature-label workload, with the engagements dealt out to three labels. First the
queries of three labels run over a small part of it, and have to agree on each row that all have given. Then
each engine runs in turn, --runs times over, each time in a fresh JVM. Prints the table and writes it to
benchmarks/results/examples.txt. Exit code 1 if the outputs differ: then nothing is timed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path
from statistics import median

import pyarrow as pa
import pyarrow.parquet as pq

import report
from label_queries import LABEL_QUERIES, WINDOWS
from runs import RunResult, RunSpec, launch
from workload import Streams, Workload, prepare

_CHECKED = ("examples-3", "tailrace-3-joins", "spark-format-4-3-joins")
# Sources and shuffles without a join: what an operator costs is what it takes beyond that.
_FLOOR = "floor-3"
# What is compared: the faster one first, and what its ratio has to be.
_BARS = (
    ("examples-3", "spark-format-4-3-joins", 15),
    ("examples-3", "tailrace-3-joins", 2),
    ("examples-3-horizons", "examples-3", 0.6),
    ("examples-3-sampled", "examples-3-filtered", 1.3),
    ("examples-1", "join-1", 0.98),
)


def deal_out(streams: Streams) -> dict[int, Streams]:
    """The same data with the right rows in `right-0` and so on: for one label, and for all of them."""
    found = {}
    for labels in (1, len(WINDOWS)):
        path = streams.path.with_name(f"{streams.path.name}-{labels}-labels")
        rows = 0
        for i in range(labels):
            side = path / f"right-{i}"
            side.mkdir(parents=True, exist_ok=True)
            for file in sorted((streams.path / "right").glob("*.parquet")):
                table = pq.read_table(file)
                mine = table.filter(pa.array(table["id"].to_numpy() % len(WINDOWS) == i))
                rows += mine.num_rows
                pq.write_table(mine, side / file.name)
                time = file.stat().st_mtime
                os.utime(side / file.name, (time, time))
        if not (path / "left").exists():
            (path / "left").symlink_to(streams.path / "left")
        found[labels] = Streams(path, streams.left_rows, rows)
    return found


def _run(engine: str, data: dict[int, Streams], work: Path, *, output: Path | None = None) -> RunResult:
    streams = data[1 if engine.endswith("-1") else len(WINDOWS)]
    scratch = Path(tempfile.mkdtemp(prefix=f"{engine}-", dir=work))
    spec = RunSpec(
        engine=engine,
        data=str(streams.path),
        rows=streams.rows,
        window=WINDOWS[-1],
        delay="2 minutes",
        master="local[2]",
        partitions=2,
        memory="4g",
        conf={},
        scratch=str(scratch / "run"),
        checked=output is not None,
    )
    try:
        result = launch(spec, timeout=3600)
        if output is not None:
            shutil.copytree(scratch / "run" / "output", output)
        return result
    finally:
        shutil.rmtree(scratch)


def _agree(work: Path) -> str:
    """What the queries have in common, or SystemExit."""
    streams = prepare(Workload(left=100_000), work)
    data = deal_out(streams)
    outputs: dict[str, dict[int, dict[str, list[int]]]] = {}
    for engine in _CHECKED:
        folder = work / f"output-{engine}"
        _run(engine, data, work, output=folder)
        rows = [row for file in folder.glob("*.parquet") for row in pq.read_table(file).to_pylist()]
        outputs[engine] = {row.pop("id"): row for row in rows}
        if len(outputs[engine]) != len(rows):
            raise SystemExit(f"{engine} has given rows twice: nothing was timed.")
        shutil.rmtree(folder)
    common = set.intersection(*(set(rows) for rows in outputs.values()))
    first = outputs[_CHECKED[0]]
    for engine, output in outputs.items():
        wrong = sum(output[i] != first[i] for i in common)
        if wrong or len(common) < streams.left_rows // 2:
            raise SystemExit(f"{engine}: {wrong} wrong rows of {len(common)}: nothing was timed.")
    matched = sum(any(first[i].values()) for i in common)
    return f"{len(common):,} rows of {', '.join(_CHECKED)} are the same, {matched:,} of them with a label"


def _bar(runs: list[RunResult], first: str, second: str, bar: float) -> str:
    """A line of the table: medians of the rounds' ratios. A slow hour is slow for all of a round."""

    def of(engine: str, number: str) -> list[float]:
        return [float(getattr(run, number)) for run in runs if run.engine == engine]

    def ratio(over: str, under: str, number: str) -> float:
        return median(a / b for a, b in zip(of(over, number), of(under, number), strict=True))

    ratios = [
        ratio(second, first, "seconds"),
        ratio(second, first, "cpu_seconds"),
        ratio(first, second, "checkpoint_peak_bytes"),
        ratio(first, second, "written_bytes"),
    ]
    above = "-"
    # The floor is that of three labels.
    if any(run.engine == _FLOOR for run in runs) and not first.endswith("-1"):
        floor, mine, other = (of(engine, "cpu_seconds") for engine in (_FLOOR, first, second))
        rounds = zip(floor, mine, other, strict=True)
        above = f"{median((o - least) / (m - least) for least, m, o in rounds):.2f}"
    named = f"{first} against {second}"
    return f"{named:<50}" + "".join(f"{ratio:>12.2f}" for ratio in ratios) + f"{above:>12}{bar:>8}"


def main() -> int:
    """Runs the command line. Returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--left", type=int, default=2_600_000, help="impressions")
    parser.add_argument("--engines", nargs="+", choices=tuple(LABEL_QUERIES), default=list(LABEL_QUERIES))
    parser.add_argument("--name", default="examples", help="of the file in benchmarks/results")
    arguments = parser.parse_args()
    engines = arguments.engines
    with tempfile.TemporaryDirectory(prefix="tailrace-bench-") as folder:
        work = Path(folder).resolve()
        agreed = _agree(work)
        print(agreed, flush=True)
        data = deal_out(prepare(Workload(left=arguments.left), work))
        runs = []
        for i in range(arguments.runs):
            # Each round begins with another engine, so that none always follows the same one.
            first = i % len(engines)
            for engine in engines[first:] + engines[:first]:
                runs.append(_run(engine, data, work))
                print(f"run {i + 1} of {engine}: {runs[-1].seconds:.1f} s", flush=True)
    header = {**report.machine(), "commit": report.commit(), "parameters": str(vars(arguments))}
    columns = report.numbers(Workload().row_bytes, 2)
    text = report.text(header, runs, columns, agreed)
    bars = [_bar(runs, *bar) for bar in _BARS if {bar[0], bar[1]} <= set(engines)]
    legend = (
        f"{'':<50}{'speed':>12}{'by CPU':>12}{'checkpoint':>12}{'written':>12}{'less floor':>12}{'bar':>8}"
    )
    table, raw, numbers = text.partition("\nraw numbers")
    text = "\n".join([table, legend, *bars, ""]) + raw + numbers
    print("\n" + text.partition("\nraw numbers")[0])
    Path(__file__).with_name("results").joinpath(f"{arguments.name}.txt").write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
