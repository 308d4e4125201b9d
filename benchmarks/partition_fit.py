"""Fits batch time = a + b x partitions + c x rows to runs of `partitions.py`, and prints both."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

import sync_streams

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Times of a micro-batch in a run, and how tables call them.
TIMES = {"seconds": "batch ms", "cpu_seconds": "CPU ms", "task_cpu_seconds": "tasks' CPU ms"}


def fit(runs: Sequence[Mapping[str, Any]], name: str) -> tuple[list[float], list[float]]:
    """Least squares of the relative residuals over the runs: time = a + b x partitions + c x rows.

    A run with many partitions takes 20 times as long as one with few. Both are to fit.

    Args:
        runs: what `run_once` gave.
        name: of the time that is fitted.

    Returns:
        a, b and c in seconds, and what each run took beyond the fit.
    """
    terms = np.array([[1.0, run["partitions"], run["measured_rows"]] for run in runs])
    times = np.array([run[name] for run in runs])
    found = np.linalg.lstsq(terms / times[:, None], np.ones(len(runs)), rcond=None)[0]
    return found.tolist(), (times - terms @ found).tolist()


def fits(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """A table of the fits: a line for each engine and each time of a micro-batch."""
    lines = [
        f"{'engine':10} {'time':14} {'a: ms':>9} {'b: ms':>9} {'c: us':>9}   residual ms: mid, most; most %"
    ]
    for engine in dict.fromkeys(run["engine"] for run in runs):
        own = [run for run in runs if run["engine"] == engine]
        for name, title in TIMES.items():
            (a, b, c), residuals = fit(own, name)
            sizes = sorted(abs(r) for r in residuals)
            share = max(abs(r) / run[name] for r, run in zip(residuals, own, strict=True))
            lines.append(
                f"{engine:10} {title:14} {a * 1e3:9.2f} {b * 1e3:9.3f} {c * 1e6:9.3f}   "
                f"{median(sizes) * 1e3:.1f}, {sizes[-1] * 1e3:.1f}; {share:.0%}"
            )
    return lines


def table(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """A table of the runs."""
    columns = (
        "partitions",
        "rows",
        "row bytes",
        "batch ms",
        "CPU ms",
        "tasks' CPU ms",
        "bytes a row",
        "files",
    )
    lines = [" ".join(["engine".ljust(10), *(c.rjust(max(len(c), 9)) for c in columns)])]
    for run in runs:
        fixed = sync_streams.ROW_BYTES if run["engine"] == "sync-join" else 24 + run["value_bytes"]
        cells = (
            f"{run['partitions']:,}",
            f"{run['measured_rows']:,.0f}",
            f"{fixed:,}",
            *(f"{run[name] * 1e3:,.1f}" for name in TIMES),
            f"{run['written_bytes'] / run['all_rows']:,.1f}",
            f"{run['written_files'] / run['all_batches'] / run['partitions']:.2f}",
        )
        padded = (cell.rjust(max(len(c), 9)) for c, cell in zip(columns, cells, strict=True))
        lines.append(" ".join([run["engine"].ljust(10), *padded]))
    return lines
