#!/usr/bin/env python3
"""Runs what CI leaves out: every test on every Spark and session, the long campaigns, the whole matrix.

    .venv/bin/python dev/nightly.py                    a new run with new seeds
    .venv/bin/python dev/nightly.py --resume           what the last run has not finished, or what failed
    .venv/bin/python dev/nightly.py --only 'kills*'    some steps; --list names them
    .venv/bin/python dev/nightly.py --hours 8          starts no step after eight hours

Each run has a folder in build/nightly, with a log for each step, `state.json`, and `report.md`, which is
written after each step: its result, its seed, its failures, and the command that repeats it. A step that is
repeated has the seed that it had. Standard library only.
"""

from __future__ import annotations

import argparse
import fcntl
import fnmatch
import json
import os
import re
import secrets
import shlex
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

REPOSITORY = Path(__file__).resolve().parents[1]
RUNS = REPOSITORY / "build" / "nightly"
_FAILED = re.compile(r"^(?:FAILED|ERROR) .*", re.MULTILINE)
_SLICES = 8


@dataclass(frozen=True)
class Step:
    """One command of a run.

    Attributes:
        name: what the report and `--only` call it.
        command: its words; a first word `pytest` or `python` is that of the environment of this script.
        environ: variables beside `TAILRACE_SEED`, which each step gets.
    """

    name: str
    command: Sequence[str]
    environ: Mapping[str, str] = field(default_factory=dict)

    def line(self, seed: int) -> str:
        """The command as a person repeats it, from the root of the repository."""
        first, *others = self.command
        program = f".venv/bin/{first}" if first in {"pytest", "python"} else first
        variables = [f"{name}={value}" for name, value in {**self.environ, "TAILRACE_SEED": seed}.items()]
        return " ".join([*variables, shlex.join([program, *others])])

    def arguments(self) -> list[str]:
        """The command as this process starts it."""
        first, *others = self.command
        prefix = {"pytest": [sys.executable, "-m", "pytest"], "python": [sys.executable]}.get(first, [first])
        return [*prefix, *others]


def _matrix() -> Iterator[Step]:
    for mode in ("classic", "connect"):
        for number in range(1, _SLICES + 1):
            of = {"TAILRACE_MATRIX": f"{number}/{_SLICES}", "TAILRACE_MODE": mode}
            yield Step(f"matrix-{mode}-{number}", ["pytest", "tests/python/test_matrix.py"], of)
    restarts = ["pytest", "tests/python/test_matrix_restarts.py"]
    yield Step("matrix-restarts", restarts, {"TAILRACE_MATRIX": "all"})


def _kills() -> Iterator[Step]:
    for file in sorted((REPOSITORY / "tests/recovery").glob("test_kill_*.py")):
        path = str(file.relative_to(REPOSITORY))
        yield Step(
            f"kills-{file.stem.removeprefix('test_kill_')}", ["pytest", path], {"TAILRACE_KILLS": "40"}
        )
    yield Step("kills-join", ["pytest", "tests/recovery/test_kill.py"], {"TAILRACE_KILLS": "40"})


_ALL = "not campaign and not guard and not long"

# The most valuable first: a night may be too short.
STEPS: tuple[Step, ...] = (
    Step("tests", ["pytest"]),
    Step("slow", ["pytest", "-m", "slow"]),
    Step("campaigns", ["pytest", "-m", "campaign or guard"]),
    *_matrix(),
    *_kills(),
    Step(
        "server",
        ["pytest", "tests/python/test_watermark_server_simulation.py"],
        {"TAILRACE_SCHEDULES": "2000"},
    ),
    Step("exchanges", ["pytest", "tests/python/test_exchange_property.py"], {"TAILRACE_EXCHANGES": "100"}),
    Step("recursions", ["pytest", "tests/python/test_recursion_property.py"], {"TAILRACE_RECURSIONS": "200"}),
    Step("long", ["pytest", "-m", "long"]),
    Step("specifications", ["python", "tests/spec/check.py", "--large"]),
    Step("tests-connect", ["pytest", "-m", _ALL], {"TAILRACE_MODE": "connect"}),
    Step("tests-4.1", ["pytest", "-m", _ALL], {"TAILRACE_SPARK": "4.1"}),
    Step("tests-4.3", ["pytest", "-m", _ALL], {"TAILRACE_SPARK": "4.3"}),
    Step(
        "faults",
        [
            "python",
            "python/build_backend/sbt.py",
            "jvm/testOnly *Faults* *Damage* *Zombie* *Batching* -- -n campaign",
        ],
        {"TAILRACE_FAULTS": "20"},
    ),
    Step("trainers", ["python", "dev/trainers.py"]),
    Step("site-screenshots", ["pytest", "tests/python/test_screenshots.py", "tests/python/test_monitor.py"]),
    Step(
        "site-pages",
        ["python", "-m", "sphinx", "-W", "--keep-going", "-q", "-c", "docs", ".", "build/docs"],
        {"TAILRACE_SCREENSHOTS": "required"},
    ),
    Step("regression", ["python", "dev/regression.py"]),
    Step("memory", ["pytest", "tests/python/test_memory.py"], {"TAILRACE_MEMORY": "64,128,512"}),
    Step("release", ["python", "dev/release.py", "--rehearsal", "--check-reproducible"]),
    Step("large-state", ["pytest", "tests/python/test_large_state.py"], {"TAILRACE_LARGE": "1"}),
)


@dataclass
class Result:
    """What is known of a step of a run.

    Attributes:
        seed: its `TAILRACE_SEED`, in each attempt.
        status: "waits", "runs" (or was killed then), "passed" or "failed".
        seconds: for which its last attempt ran.
        failures: pytest's lines about tests that failed.
    """

    seed: int
    status: str = "waits"
    seconds: float = 0
    failures: list[str] = field(default_factory=list)


class Run:
    """The steps of a run, and its folder."""

    def __init__(self, folder: Path, steps: Sequence[Step], results: dict[str, Result]) -> None:
        self.folder = folder
        self._steps = steps
        self._results = results

    @classmethod
    def new(cls, runs: Path, steps: Sequence[Step]) -> Run:
        """A run with seeds that none before had, but by chance."""
        folder = runs / datetime.now(UTC).strftime("%Y-%m-%dT%H%M%S")
        folder.mkdir(parents=True)
        run = cls(folder, steps, {step.name: Result(secrets.randbelow(10**6)) for step in steps})
        run.save()
        return run

    @classmethod
    def last(cls, runs: Path, steps: Sequence[Step]) -> Run:
        """The last run. Steps that it did not know are new; steps that are no longer there are left out.

        Raises:
            SystemExit: there is none.
        """
        folders = sorted(state.parent for state in runs.glob("*/state.json"))
        if not folders:
            raise SystemExit(f"There is no run to resume in {runs}: leave --resume out.")
        saved = json.loads((folders[-1] / "state.json").read_text(encoding="utf-8"))
        results = {
            step.name: Result(**saved[step.name]) if step.name in saved else Result(secrets.randbelow(10**6))
            for step in steps
        }
        return cls(folders[-1], steps, results)

    def go(self, only: str, until: float) -> bool:
        """Runs each step of that name pattern that has not passed, as long as `time.monotonic()` is less.

        Returns:
            Whether all of them have passed.
        """
        chosen = [step for step in self._steps if fnmatch.fnmatch(step.name, only)]
        if not chosen:
            raise SystemExit(f"--only {only} names no step; --list names all.")
        for step in chosen:
            if self._results[step.name].status == "passed":
                continue
            if time.monotonic() >= until:
                print("The time is up: --resume continues.", flush=True)
                break
            self._run(step)
        return all(self._results[step.name].status == "passed" for step in chosen)

    def _run(self, step: Step) -> None:
        result = self._results[step.name]
        # Before it begins: a step that a kill has cut short has run, but has not passed.
        result.status = "runs"
        self.save()
        print(f"{step.name}: {step.line(result.seed)}", flush=True)
        log = self.folder / f"{step.name}.log"
        began = time.monotonic()
        with log.open("wb") as output:
            process = subprocess.Popen(
                step.arguments(),
                cwd=REPOSITORY,
                env={
                    **os.environ,
                    "SPARK_LOCAL_IP": "127.0.0.1",
                    **step.environ,
                    "TAILRACE_SEED": str(result.seed),
                },
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                # A group of its own: a step starts Sparks, servers and sbt.
                start_new_session=True,
            )
            try:
                code = process.wait()
            except BaseException:
                os.killpg(process.pid, signal.SIGTERM)
                process.wait()
                raise
        result.seconds = round(time.monotonic() - began, 1)
        result.status = "passed" if code == 0 else "failed"
        result.failures = _FAILED.findall(log.read_text(encoding="utf-8", errors="replace"))
        if code != 0 and not result.failures:
            result.failures = [f"exit code {code}; see {log.name}"]
        self.save()
        print(f"{step.name}: {result.status} in {result.seconds:.0f} s", flush=True)

    def save(self) -> None:
        """Writes the state and the report, each in one piece."""
        state = json.dumps({name: asdict(result) for name, result in self._results.items()}, indent=1)
        for name, text in {"state.json": state, "report.md": self.report()}.items():
            aside = self.folder / f".{name}"
            aside.write_text(text, encoding="utf-8")
            aside.replace(self.folder / name)

    def report(self) -> str:
        """The results as a page in Markdown."""
        rows = ["| step | result | seed | time |", "|---|---|---|---|"]
        failures: list[str] = []
        for step in self._steps:
            result = self._results[step.name]
            ran = result.status in {"passed", "failed"}
            spent = f"{result.seconds / 60:.1f} min" if ran else ""
            rows.append(f"| {step.name} | {result.status} | {result.seed} | {spent} |")
            if result.status == "failed":
                lines = ["", f"## {step.name}", "", "```sh", step.line(result.seed), "```", ""]
                failures += [*lines, *(f"- `{one}`" for one in result.failures)]
        return "\n".join([f"# Nightly run {self.folder.name}", "", *rows, *failures, ""])


@contextmanager
def _alone(runs: Path) -> Iterator[None]:
    """One run at a time in a checkout: two would share sbt's folders and the machine."""
    runs.mkdir(parents=True, exist_ok=True)
    with (runs / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise SystemExit(f"Another run goes on in {runs}.") from error
        yield


def main(arguments: Sequence[str] | None = None, *, runs: Path = RUNS, steps: Sequence[Step] = STEPS) -> int:
    """Runs the command; the exit code is 0 if all steps that were asked for have passed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--resume", action="store_true", help="continue the last run with its seeds")
    parser.add_argument(
        "--only", default="*", metavar="PATTERN", help="steps whose names match, as a shell does"
    )
    parser.add_argument("--hours", type=float, default=float("inf"), help="start no step after that time")
    parser.add_argument("--list", action="store_true", help="print the steps and end")
    asked = parser.parse_args(arguments)
    if asked.list:
        for step in steps:
            print(f"{step.name:20} {step.line(0)}")
        return 0
    with _alone(runs):
        run = (Run.last if asked.resume else Run.new)(runs, steps)
        passed = run.go(asked.only, time.monotonic() + asked.hours * 3600)
        print(f"The report is {run.folder / 'report.md'}")
    return 0 if passed else 1


if __name__ == "__main__":
    # A night ends by a signal, too: what the step has started has to end with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
