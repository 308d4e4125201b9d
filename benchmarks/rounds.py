"""Queries that take turns in JVMs that are warm: what a run costs, and how two of them compare."""

from __future__ import annotations

import os
import shutil
import time
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame

    from measure import Process


class Cost(NamedTuple):
    """Of one run, from the call that makes the frame to the end of the query.

    Attributes:
        seconds: of the wall clock.
        cpu: seconds of the JVM's CPU time.
        rows: that it has read.
    """

    seconds: float
    cpu: float
    rows: int


def run(made: Callable[[], DataFrame], checkpoint: str, jvm: Process) -> Cost:
    """Runs a query until it has read all.

    Args:
        made: makes the frame.
        checkpoint: a new directory of this machine; it is deleted in the end.
        jvm: the one that runs the query.
    """
    os.sync()
    cpu, begin = jvm.cpu_seconds(), time.perf_counter()
    writer = made().writeStream.format("noop").option("checkpointLocation", checkpoint)
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    seconds = time.perf_counter() - begin
    cpu = jvm.cpu_seconds() - cpu
    shutil.rmtree(checkpoint)
    return Cost(seconds, cpu, sum(p.numInputRows for p in query.recentProgress))


def in_turn(
    engines: Sequence[str],
    made: Callable[[str], DataFrame],
    rows: int,
    work: Path,
    jvm: Process,
    a: Namespace,
) -> dict[str, list[Cost]]:
    """Runs engines by turns in one JVM, every second round from the last one to the first.

    Args:
        engines: their names.
        made: makes the frame of one.
        rows: that each has to read.
        work: for checkpoints.
        jvm: the one that runs the queries.
        a: of the command line: `cold` rounds aren't counted, and `rounds` are.
    """
    costs: dict[str, list[Cost]] = {engine: [] for engine in engines}
    for i in range(a.cold + a.rounds):
        for engine in engines[:: 1 if i % 2 == 0 else -1]:
            cost = run(partial(made, engine), f"{work}/{engine}-{i}", jvm)
            if cost.rows != rows:
                raise RuntimeError(f"{engine} has read {cost.rows} rows of {rows}")
            print(f"round {i + 1}, {engine}: {cost.seconds:.2f} s, CPU {cost.cpu:.2f} s", flush=True)
            if i >= a.cold:
                costs[engine].append(cost)
    return costs


def table(costs: Mapping[str, Sequence[Cost]]) -> list[str]:
    """A line for each query: medians, and the numbers of all its runs."""
    lines = [f"{'':27} {'rows/s':>9} {'CPU us/row':>10}  seconds, CPU seconds"]
    for name, of in costs.items():
        rows = of[0].rows
        seconds, cpu = median(one.seconds for one in of), median(one.cpu for one in of)
        each = "; ".join(f"{one.seconds:.2f}, {one.cpu:.2f}" for one in of)
        lines.append(f"{name:27} {rows / seconds:9,.0f} {cpu / rows * 1e6:10.2f}  {each}")
    return lines


def compared(of: Sequence[Cost], to: Sequence[Cost]) -> tuple[float, float]:
    """How many times the other's time and CPU time are its own, the median of the rounds."""
    pairs = list(zip(of, to, strict=True))
    return median(t.seconds / o.seconds for o, t in pairs), median(t.cpu / o.cpu for o, t in pairs)
