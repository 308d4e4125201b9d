"""Queries that take turns in JVMs that are warm: what a run costs, and how two of them compare."""

from __future__ import annotations

import os
import shutil
import time
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

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
