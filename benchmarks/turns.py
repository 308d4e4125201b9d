"""Engines that run in turn over the same data, each run in a process of its own."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import report
from runs import RunResult, RunSpec, launch
from workload import prepare

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from workload import Streams, Workload


def in_turn(engines: Sequence[str], streams: Streams, window: str, times: int, work: Path) -> list[RunResult]:
    """Runs each engine so many times, every second round from the last one to the first.

    Args:
        engines: keys of `queries.QUERIES`.
        streams: the data.
        window: of the join, as Spark reads durations.
        times: rounds.
        work: a directory for what the runs leave until they have ended.
    """
    runs = []
    for i in range(times):
        for engine in engines[:: 1 if i % 2 == 0 else -1]:
            runs.append(run_alone(engine, streams, window, work))
            print(f"run {i + 1} of {engine}: {runs[-1].seconds:.1f} s", flush=True)
    return runs


def compared(engines: Sequence[str], workload: Workload, window: str, times: int, work: Path) -> list[str]:
    """Runs engines in turn over a workload: a table of them, and how the others compare with the first one.

    Args:
        engines: keys of `queries.QUERIES`.
        workload: what the data are made of.
        window: of the join, as Spark reads durations.
        times: rounds.
        work: a directory for the data, and for what the runs leave until they have ended.
    """
    runs = in_turn(engines, prepare(workload, work), window, times, work)
    found = report.medians(runs, report.numbers(workload.row_bytes, 2))
    rows = {engine: found[engine] for engine in engines}
    return [report.table(rows), "", report.ratios(rows, to=engines[0])]


def run_alone(
    engine: str, streams: Streams, window: str, work: Path, more: Mapping[str, str] | None = None
) -> RunResult:
    """Runs an engine once, in a fresh JVM.

    Args:
        engine: a key of `queries.QUERIES`.
        streams: the data.
        window: of the join, as Spark reads durations.
        work: a directory for what the run leaves until it has ended.
        more: environment variables.
    """
    with tempfile.TemporaryDirectory(prefix=f"{engine}-", dir=work) as scratch:
        spec = RunSpec(
            engine=engine,
            data=str(streams.path),
            rows=streams.rows,
            window=window,
            delay="2 minutes",
            master="local[2]",
            partitions=2,
            memory="4g",
            conf={},
            scratch=str(Path(scratch) / "run"),
        )
        return launch(spec, timeout=3600, more=more)
