"""Compares Tailrace with plain Spark and with the floors on the feature-label workload, side by side.

    python benchmarks/feature_label.py --left 400000 --slices 20 --window '30 minutes' --runs 3

Makes the data, checks Tailrace's output against a brute-force answer, then runs each engine in turn, --runs
times over, each time in a fresh Python process with a fresh JVM. Prints the table and writes it to
benchmarks/results/NAME.txt. Exit code 1 if the output is wrong: then nothing is timed. See README.md.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

import report
from oracle import Verdict, check, count_labels
from queries import QUERIES, is_tailrace
from runs import RunResult, RunSpec, launch
from workload import Streams, Workload, prepare

if TYPE_CHECKING:
    from collections.abc import Sequence

_ENGINES = ("tailrace", "spark-format-4", "spark-format-2", "floor")
_CHOICES = tuple(QUERIES)
_UNITS_MS = {"second": 1000, "minute": 60_000, "hour": 3_600_000, "day": 86_400_000}
_MOST_LABELS = 200_000_000  # some gigabytes of answer, for the engines and for the oracle
_RESULTS = Path(__file__).with_name("results")


def milliseconds(duration: str) -> int:
    """Reads a duration of one unit, such as "30 minutes", the simplest that Spark reads."""
    number, _, unit = duration.strip().partition(" ")
    try:
        return int(number) * _UNITS_MS[unit.strip().removesuffix("s")]
    except (KeyError, ValueError):
        message = f"{duration!r}: a whole number and a unit, such as '30 minutes'"
        raise argparse.ArgumentTypeError(message) from None


def _duration(text: str) -> str:
    milliseconds(text)
    return text.strip()


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r}: KEY=VALUE")
    return key, value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument(
        "--work", type=Path, help="keeps the data for the next call (default: a temporary one)"
    )
    parser.add_argument(
        "--name", help="of the file in benchmarks/results (default: from rows, slices, window)"
    )
    parser.add_argument("--runs", type=int, default=3, help="timed runs of each engine (default: 3)")
    parser.add_argument("--engines", nargs="+", choices=_CHOICES, default=list(_ENGINES), metavar="ENGINE")
    parser.add_argument("--window", type=_duration, default="30 minutes", help="of the join")
    parser.add_argument("--delay", type=_duration, default="2 minutes", help="of both watermarks")
    parser.add_argument("--cores", type=int, default=2, help="of the local master (default: 2)")
    parser.add_argument("--partitions", type=int, default=2, help="of the shuffle (default: 2)")
    parser.add_argument("--memory", default="4g", help="heap of the JVM (default: 4g)")
    parser.add_argument("--conf", type=_setting, action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--timeout", type=float, default=3600, help="of one run, in seconds (default: 3600)")
    data = parser.add_argument_group("data", "the fields of workload.Workload")
    for field in fields(Workload):
        flag = f"--{field.name.replace('_', '-')}"
        data.add_argument(flag, type=type(field.default), default=field.default, help=f"({field.default})")
    return parser


class Comparison:
    """One call of this script.

    Args:
        arguments: of the command line.
        work: directory for data and scratch files.
    """

    def __init__(self, arguments: argparse.Namespace, work: Path) -> None:
        self._arguments = arguments
        self._work = work
        self._workload = Workload(**{f.name: getattr(arguments, f.name) for f in fields(Workload)})

    def run(self) -> int:
        """Makes data, checks, times and reports. Returns the exit code."""
        header = {**report.machine(), "commit": report.commit(), "parameters": self._parameters()}
        streams = prepare(self._workload, self._work)
        sides = f"{streams.left_rows:,} left and {streams.right_rows:,} right rows"
        header["data"] = f"{sides} of {self._workload.row_bytes} bytes"
        print(f"data: {header['data']}", flush=True)
        labels = count_labels(streams.path, milliseconds(self._arguments.window))
        if labels > _MOST_LABELS:
            print(
                f"The join's answer has {labels:,} labels: lower --zipf, --left or --window.", file=sys.stderr
            )
            return 1
        verdicts = []
        for engine in self._checked_engines():
            verdict = self._check(engine, streams)
            print(f"check of {engine}: {verdict}", flush=True)
            if not verdict.right:
                print("The output is wrong, or no window has closed: nothing was timed.", file=sys.stderr)
                return 1
            verdicts.append(f"{engine}: {verdict}")
        runs = self._time(streams)
        columns = report.numbers(self._workload.row_bytes, self._arguments.partitions)
        result = report.text(header, runs, columns, "; ".join(verdicts))
        print("\n" + result.partition("\nraw numbers")[0])
        self._output().parent.mkdir(exist_ok=True)
        self._output().write_text(result)
        return 0

    def _parameters(self) -> str:
        kept = {
            k: v for k, v in vars(self._arguments).items() if k not in {"work", "name", "conf", "timeout"}
        }
        kept["conf"] = " ".join(f"{key}={value}" for key, value in self._arguments.conf) or "none"
        kept["engines"] = " ".join(self._arguments.engines)
        return ", ".join(f"{key} {value}" for key, value in kept.items())

    def _output(self) -> Path:
        a = self._arguments
        skew = f"-zipf-{a.zipf}" if a.zipf else ""
        default = f"feature-label-{a.left}-{a.slices}-slices-{a.window.replace(' ', '-')}{skew}"
        return _RESULTS / f"{a.name or default}.txt"

    def _spec(self, engine: str, streams: Streams, scratch: Path, *, checked: bool = False) -> RunSpec:
        a = self._arguments
        return RunSpec(
            engine=engine,
            data=str(streams.path),
            rows=streams.rows,
            window=a.window,
            delay=a.delay,
            master=f"local[{a.cores}]",
            partitions=a.partitions,
            memory=a.memory,
            conf=dict(a.conf),
            scratch=str(scratch),
            checked=checked,
        )

    def _checked_engines(self) -> Sequence[str]:
        """Tailrace in each way that is to be timed, or as it is by default if it isn't to be timed at all."""
        return [e for e in dict.fromkeys(self._arguments.engines) if is_tailrace(e)] or ["tailrace"]

    def _check(self, engine: str, streams: Streams) -> Verdict:
        scratch = Path(tempfile.mkdtemp(prefix="check-", dir=self._work))
        try:
            launch(self._spec(engine, streams, scratch / "run", checked=True), self._arguments.timeout)
            after, delay = milliseconds(self._arguments.window), milliseconds(self._arguments.delay)
            # The default of release_every, rounded up.
            held = after // 64 + 1
            return check(
                streams.path, scratch / "run" / "output", after_ms=after, delay_ms=delay, held_ms=held
            )
        finally:
            shutil.rmtree(scratch)

    def _time(self, streams: Streams) -> Sequence[RunResult]:
        results = []
        engines = self._arguments.engines
        for i in range(self._arguments.runs):
            # Each round begins with another engine, so that none always follows the same one.
            first = i % len(engines)
            for engine in engines[first:] + engines[:first]:
                scratch = Path(tempfile.mkdtemp(prefix=f"{engine}-", dir=self._work))
                try:
                    result = launch(self._spec(engine, streams, scratch / "run"), self._arguments.timeout)
                finally:
                    shutil.rmtree(scratch)
                results.append(result)
                rate = result.rows / result.seconds
                print(f"run {i + 1} of {engine}: {result.seconds:.1f} s, {rate:,.0f} rows/s", flush=True)
        return results


def main() -> int:
    """Runs the command line. Returns the exit code."""
    parser = _parser()
    arguments = parser.parse_args()
    if milliseconds(arguments.delay) <= arguments.max_lag_ms:
        parser.error("--delay must be above --max-lag-ms: the right answer knows no late rows")
    if arguments.work:
        arguments.work.mkdir(parents=True, exist_ok=True)
        return Comparison(arguments, arguments.work.resolve()).run()
    with tempfile.TemporaryDirectory(prefix="tailrace-bench-") as work:
        return Comparison(arguments, Path(work).resolve()).run()


if __name__ == "__main__":
    sys.exit(main())
