"""The cost of the rows: cores by part, and the time of a micro-batch.

micro-batch = Spark's own steps + the driver's time for each partition + what the driver adds
              + the greater of   rows' CPU / cores + rounds of tasks x (a task + its PUT)
                                 the longest task
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tailrace.sizing import constants
from tailrace.sizing.state import Release, release, state

if TYPE_CHECKING:
    from tailrace.sizing.load import Load


@dataclass(frozen=True)
class Cores:
    """Busy cores of executors, by what keeps them busy. Reading the source and writing the sink isn't in it.

    Attributes:
        scan_and_shuffle: of rows that are in memory: without the source's own reading and decoding.
        join: taking rows in, writing them, giving them out.
        release: reading pages of right rows for left rows that leave.
        compaction: in the background.
        tasks: what micro-batches and their partitions cost without rows: files, commits, the scan's tasks.
    """

    scan_and_shuffle: float
    join: float
    release: float
    compaction: float
    tasks: float

    @property
    def total(self) -> float:
        """All of them."""
        return self.in_batch + self.compaction

    @property
    def in_batch(self) -> float:
        """Those that a micro-batch waits for."""
        return self.rows + self.tasks

    @property
    def rows(self) -> float:
        """Those of a micro-batch that grow with its rows."""
        return self.scan_and_shuffle + self.join + self.release


@dataclass(frozen=True)
class Batch:
    """A micro-batch.

    Attributes:
        seconds: from its start to its end.
        spread: seconds if the cores share all of the work evenly.
        driver: seconds of it in which the driver alone works.
        landing: seconds of these for the files of `write_windows`.
        longest_task: seconds of the task whose partition releases its rows.
        release: what leaves that partition together.
    """

    seconds: float
    spread: float
    driver: float
    landing: float
    longest_task: float
    release: Release


def busy_cores(load: Load, partitions: int) -> Cores:
    """The cores that a load keeps busy.

    Args:
        load: what comes in.
        partitions: of the state.
    """
    waits = state(load, partitions)
    matched = load.left * load.matches * constants.EAGER_MATCH.value if load.eager else 0.0
    leaving = release(load, partitions, waits.runs)
    return Cores(
        scan_and_shuffle=load.rows * constants.SHUFFLED_ROW.value
        + load.bytes * constants.SHUFFLED_BYTE.value,
        join=load.rows * constants.JOINED_ROW.value + load.bytes * constants.JOINED_BYTE.value + matched,
        release=load.left * leaving.row_seconds,
        compaction=load.rows * waits.rewrites * constants.REWRITTEN_ROW.value,
        tasks=(partitions * constants.TASK_PARTITION.value + constants.SCAN.value) / load.trigger,
    )


def batch(load: Load, partitions: int, cores: int) -> Batch:
    """A micro-batch in the middle of a run.

    Args:
        load: what comes in.
        partitions: of the state.
        cores: of all executors.
    """
    busy = busy_cores(load, partitions)
    leaving = release(load, partitions, state(load, partitions).runs)
    landing = _landing(load, partitions)
    driver = constants.BATCH.value + partitions * constants.DRIVER_PARTITION.value + landing
    driver += constants.DRIVER_PUTS.value * load.latency
    driver += _observed(load, partitions)
    task = constants.TASK_PARTITION.value + load.latency
    # The partition's share of the rows, and the step of left rows that it releases in this micro-batch.
    row = constants.RELEASED_ROW.value + leaving.row_seconds
    longest = task + busy.join * load.trigger / partitions + leaving.rows * row
    # Compaction runs beside the tasks, on the same cores.
    free = max(cores - busy.compaction, cores * 0.1)
    tasks = busy.rows * load.trigger / free + math.ceil(partitions / cores) * task
    return Batch(
        seconds=driver + max(tasks, longest),
        spread=driver + tasks,
        driver=driver,
        landing=landing,
        longest_task=longest,
        release=leaving,
    )


def _landing(load: Load, partitions: int) -> float:
    if not load.windows_open:
        return 0.0
    rounds = math.ceil(partitions * load.windows_open / constants.LANDED_AT_ONCE.value)
    return rounds * constants.LANDING_CALLS.value * load.latency


def _observed(load: Load, partitions: int) -> float:
    """The driver's work for a replay filter and an accurate watermark: merging, and one PUT each."""
    seconds = 0.0
    if load.origins:
        seconds += load.origins * constants.ORIGIN.value + load.latency
    if load.hosts:
        seconds += load.hosts * partitions * constants.TASK_HOST.value + load.latency
    return seconds
