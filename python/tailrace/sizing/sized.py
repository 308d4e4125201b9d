"""A load, and all that follows from it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tailrace.sizing.limits import Limit, limits
from tailrace.sizing.needs import Needs, needs
from tailrace.sizing.state import State, state
from tailrace.sizing.work import Batch, Cores, batch, busy_cores

if TYPE_CHECKING:
    from tailrace.sizing.load import Load

_BUSY = 0.7  # share of the cores, and of the trigger, that a suggestion uses
_DRIVER = 0.25  # share of the trigger that the driver may take, for a suggestion
_PARTITION_BYTES = 4e9  # so that one is read back in a minute at 70 MB/s
_MOST_PARTITIONS = 2**17


@dataclass(frozen=True)
class Size:
    """The result of a sizing.

    Attributes:
        load: the given load, with the suggested numbers of partitions and cores.
        partitions: of the state: `spark.sql.shuffle.partitions`.
        cores: of all executors.
        state: buffered rows and bytes.
        busy: cores by part.
        batch: the time of a micro-batch.
        needs: requests, memory, disks, latency, recovery, cost.
        limits: the limits, nearest first.
    """

    load: Load
    partitions: int
    cores: int
    state: State
    busy: Cores
    batch: Batch
    needs: Needs
    limits: tuple[Limit, ...]

    @property
    def breaks_first(self) -> Limit:
        """The first limit for a growing number of events, or one that is exceeded already."""
        return self.limits[0]


def size(load: Load) -> Size:
    """Calculates what a load needs.

    Args:
        load: the streams, the join, the machines.

    Returns:
        All numbers: of a query that has run for longer than its window, whose keys are spread evenly.
    """
    partitions = load.partitions or _partitions(load)
    cores = load.cores or _cores(load, partitions)
    load = replace(load, partitions=partitions, cores=cores)
    return Size(
        load=load,
        partitions=partitions,
        cores=cores,
        state=state(load, partitions),
        busy=busy_cores(load, partitions),
        batch=batch(load, partitions, cores),
        needs=needs(load, partitions, cores),
        limits=limits(load, partitions, cores),
    )


def _partitions(load: Load) -> int:
    """The least power of two with partitions that are read back soon and release their rows soon.

    Each costs the driver time. So it stops before the driver has too many, if the partitions are large then.
    """
    partitions = 1
    while partitions < _MOST_PARTITIONS:
        cores = load.cores or math.ceil(busy_cores(load, partitions).total / _BUSY)
        soon = batch(load, partitions, cores).longest_task <= load.trigger * _BUSY / 2
        if partitions >= cores and soon and state(load, partitions).partition_bytes <= _PARTITION_BYTES:
            break
        if batch(load, 2 * partitions, cores).driver > load.trigger * _DRIVER:
            break
        partitions *= 2
    return partitions


def _cores(load: Load, partitions: int) -> int:
    """The least number of cores that are busy for a part of the time, and end a micro-batch in time."""
    cores = max(1, math.ceil(busy_cores(load, partitions).total / _BUSY))
    in_time = load.trigger * _BUSY
    # Where the driver alone takes too long, or one round of tasks, more cores don't help.
    if batch(load, partitions, partitions).spread < in_time:
        while cores < partitions and batch(load, partitions, cores).spread > in_time:
            cores = min(partitions, math.ceil(cores * 1.1))
    # Whole executors.
    return math.ceil(cores / load.executor_cores) * load.executor_cores
