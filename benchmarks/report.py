"""The text that a comparison ends in: machine, parameters, a table of medians, ratios, every raw number."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from dataclasses import asdict
from datetime import UTC, datetime
from math import isnan, nan
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import tailrace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from runs import RunResult

    Number = Callable[[RunResult], float]

BASELINE = "spark-format-4"
FLOOR = "floor"
TWO_SHUFFLES = "floor-two-shuffles"

_SIGNIFICANT = 100  # from here on a number is shown without decimals


def numbers(row_bytes: int, partitions: int) -> Mapping[str, Number]:
    """The columns of the table: each a number of one run, of which the table has the median per engine.

    Args:
        row_bytes: a row's payload in memory, which makes the input's bytes.
        partitions: of the shuffle.
    """

    def per_input(size: int, run: RunResult) -> float:
        return size / (run.rows * row_bytes)

    return {
        "rows/s": lambda run: run.rows / run.seconds,
        "CPU s": lambda run: run.cpu_seconds,
        "CPU us/row": lambda run: run.cpu_seconds / run.rows * 1e6,
        "peak RSS MB": lambda run: run.peak_rss_bytes / 1e6,
        "batch ms": lambda run: median(run.batch_ms),
        "written/in": lambda run: per_input(run.written_bytes, run),
        "ckpt peak/in": lambda run: per_input(run.checkpoint_peak_bytes, run),
        "ckpt end/in": lambda run: per_input(run.checkpoint_final_bytes, run),
        "disk peak/in": lambda run: per_input(run.local_peak_bytes, run),
        "disk/live": lambda run: run.local_peak_bytes / run.live_peak_bytes if run.live_peak_bytes else nan,
        "files/batch": lambda run: run.written_files / (run.batches * partitions),
    }


def medians(runs: Sequence[RunResult], columns: Mapping[str, Number]) -> dict[str, dict[str, float]]:
    """Per engine, in the order of its first run, the median of each column over its runs."""
    engines = dict.fromkeys(run.engine for run in runs)
    return {
        engine: {
            name: median(of(run) for run in runs if run.engine == engine) for name, of in columns.items()
        }
        for engine in engines
    }


def table(rows: Mapping[str, Mapping[str, float]]) -> str:
    """Lines of text: one row an engine, one column a number; a dash where there is none."""
    columns = list(next(iter(rows.values())))
    first = max(len(engine) for engine in rows)
    lines = [" ".join(["engine".ljust(first), *(name.rjust(_width(name)) for name in columns)])]
    for engine, values in rows.items():
        cells = (_shown(values[name]).rjust(_width(name)) for name in columns)
        lines.append(" ".join([engine.ljust(first), *cells]))
    return "\n".join(lines)


def ratios(rows: Mapping[str, Mapping[str, float]], to: str) -> str:
    """The same table with each number divided by that of the engine `to`; empty if that one did not run."""
    if to not in rows:
        return ""
    divided = {
        engine: {name: value / rows[to][name] if rows[to][name] else nan for name, value in values.items()}
        for engine, values in rows.items()
        if engine != to
    }
    return f"medians, as a multiple of {to}:\n{table(divided)}\n" if divided else ""


def _width(name: str) -> int:
    return max(len(name), 8)


def _shown(value: float) -> str:
    if isnan(value):
        return "-"
    return f"{value:,.0f}" if value >= _SIGNIFICANT else f"{value:.2f}"


def machine() -> dict[str, str]:
    """What a reader must know of the machine and its state; no names of hosts or users."""
    cpu = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    memory = Path("/proc/meminfo").read_text().splitlines()[0].split()[1]
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "cpu": f"{cpu[0].partition(':')[2].strip() if cpu else 'unknown'}, {os.cpu_count()} cores",
        "memory": f"{int(memory) / 2**20:.1f} GiB",
        "kernel": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "load at start": " ".join(f"{load:.2f}" for load in os.getloadavg()),
    }


def heading(parameters: str) -> list[str]:
    """The lines that a benchmark with a table of its own begins with: machine, version, parameters."""
    entries = {
        **machine(),
        "tailrace": f"{tailrace.__version__}, {commit()}",
        "parameters": parameters,
    }
    return [f"{name:15}{value}" for name, value in entries.items()]


def save(name: str, lines: Sequence[str]) -> None:
    """Prints the lines and writes them to benchmarks/results/NAME.txt."""
    whole = "\n".join(lines)
    print(whole)
    (Path(__file__).with_name("results") / f"{name}.txt").write_text(whole + "\n")


def commit() -> str:
    """The repository's commit, marked if files differ from it."""

    def git(*arguments: str) -> str:
        command = ["git", *arguments]
        here = Path(__file__).parent
        return subprocess.run(command, cwd=here, capture_output=True, text=True, check=True).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--", ":/", ":!/benchmarks/results")
        return git("rev-parse", "--short=12", "HEAD") + (" with changes" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def text(
    header: Mapping[str, str], runs: Sequence[RunResult], columns: Mapping[str, Number], verdict: str
) -> str:
    """The whole report.

    Args:
        header: names and values of all that was fixed before the runs.
        runs: the timed runs, in the order in which they were made.
        columns: of the table, as from `numbers`.
        verdict: what the untimed check of Tailrace's output found.
    """
    rows = medians(runs, columns)
    versions = runs[0].versions
    head = {
        **header,
        "spark": f"{versions['spark']} on {versions['java']}",
        "tailrace": f"{versions['tailrace']}, commit {header['commit']}, jar {versions['jar_sha256'][:12]}",
        "correct": verdict,
    }
    head.pop("commit")
    width = max(len(name) for name in head)
    raw = "\n".join(json.dumps(asdict(run)) for run in runs)
    parts = [
        "\n".join(f"{name.ljust(width)}  {value}" for name, value in head.items()) + "\n",
        f"medians, runs per engine: {len(runs) // len(rows)} (columns: README.md):\n{table(rows)}\n",
        ratios(rows, BASELINE),
        ratios(rows, FLOOR),
        ratios(rows, TWO_SHUFFLES),
        f"raw numbers, in the order of the runs:\n{raw}\n",
    ]
    return "\n".join(part for part in parts if part)
