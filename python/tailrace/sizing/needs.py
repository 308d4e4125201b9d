"""The needs of a load besides cores: requests, memory, disks, time to recover, money."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tailrace.sizing import constants
from tailrace.sizing.state import left_stored, right_stored, state
from tailrace.sizing.work import batch

if TYPE_CHECKING:
    from tailrace.sizing.load import Load

_DAY = 86_400.0
_MONTH_DAYS = 30
_GB = 1e9


@dataclass(frozen=True)
class Needs:
    """The needs of a load.

    Attributes:
        executors: of `executor_cores` each.
        puts: requests a second, on average.
        burst: PUTs a second while a micro-batch runs.
        gets: requests a second while nothing fails: none.
        deletes: of objects a second; a bulk request deletes up to 1,000.
        task_memory: bytes of one task.
        executor_heap: bytes of heap of an executor, for the tasks that run in it at a time.
        executor_native: bytes beside the heap: RocksDB's block cache.
        executor_disk: bytes of local disk of an executor.
        driver_memory: bytes that Tailrace takes in the driver.
        row_latency: seconds from the end of a left row's window until it is emitted, on average.
        row_latency_most: the same, at most.
        recovery: seconds from the detected loss of an executor until its partitions are loaded again.
        recovery_gets: requests for that.
        costs: a day, by part; those whose price is known.
    """

    executors: int
    puts: float
    burst: float
    gets: float
    deletes: float
    task_memory: float
    executor_heap: float
    executor_native: float
    executor_disk: float
    driver_memory: float
    row_latency: float
    row_latency_most: float
    recovery: float
    recovery_gets: float
    costs: dict[str, float]

    @property
    def cost(self) -> float | None:
        """A day, of all parts whose price is known; None without a price."""
        return sum(self.costs.values()) if self.costs else None


def needs(load: Load, partitions: int, cores: int) -> Needs:
    """Calculates them.

    Args:
        load: what comes in.
        partitions: of the state.
        cores: of all executors.
    """
    waits, takes = state(load, partitions), batch(load, partitions, cores)
    executors = math.ceil(cores / load.executor_cores)
    puts = _puts_of_a_batch(load, partitions) / load.trigger
    memory = _task_memory(load, partitions)
    recovery, gets = _recovery(load, partitions, cores)
    return Needs(
        executors=executors,
        puts=puts,
        burst=puts * load.trigger / min(takes.seconds, load.trigger),
        gets=0.0,
        deletes=puts,
        task_memory=memory,
        executor_heap=load.executor_cores * memory / constants.MEMORY_FRACTION.value,
        executor_native=constants.CACHE.value,
        executor_disk=waits.local_bytes / executors,
        driver_memory=load.origins * constants.ORIGIN_BYTES.value + load.hosts * constants.HOST_BYTES.value,
        row_latency=load.delay + load.step / 2 + 1.5 * load.trigger + takes.seconds,
        row_latency_most=load.delay + load.step + 2 * load.trigger + takes.seconds,
        recovery=recovery,
        recovery_gets=gets,
        costs=_costs(load, puts, waits.checkpoint_bytes, cores),
    )


def _puts_of_a_batch(load: Load, partitions: int) -> float:
    waits = state(load, partitions)
    fan_in = constants.FAN_IN.value
    # A compaction's outcome: one of 32 micro-batches, one of 1,024, and so on.
    merged = sum(fan_in**-level for level in range(1, waits.rewrites + 1))
    parts = waits.written_bytes * load.trigger / constants.PART_BYTES.value
    driver = constants.DRIVER_PUTS.value + bool(load.origins) + bool(load.hosts)
    rows = waits.written_bytes * load.trigger / partitions
    own = float(rows > constants.INLINE.value)
    return partitions * (constants.PUTS.value + own + merged) + parts + driver


def _task_memory(load: Load, partitions: int) -> float:
    waits = state(load, partitions)
    buffer = constants.BUFFER.value
    rows = (load.left * left_stored(load) + load.right * right_stored(load)) / partitions
    taken_in = min(buffer, rows * load.trigger)
    leaving = min(buffer, load.left / partitions * max(load.step, load.trigger) * left_stored(load))
    return taken_in + leaving + waits.runs * constants.PAGE_BYTES.value


def _recovery(load: Load, partitions: int, cores: int) -> tuple[float, float]:
    """The partitions of one executor, read back by the free cores of the others."""
    executors = math.ceil(cores / load.executor_cores)
    lost = math.ceil(partitions / executors)
    others = max(cores - load.executor_cores, load.executor_cores)  # a lone executor is started again
    waits = state(load, partitions)
    task = min(load.download, constants.STREAMS.value * constants.STREAM.value) / load.executor_cores
    one = waits.local_bytes / partitions / task + load.latency
    return math.ceil(lost / others) * one, lost * (1 + waits.runs)


def _costs(load: Load, puts: float, stored: float, cores: int) -> dict[str, float]:
    prices = load.prices
    found = {
        "PUT requests": (prices.put, puts * _DAY / 1000),
        "GET requests": (prices.get, 0.0),
        "storage": (prices.gb_month, stored / _GB / _MONTH_DAYS),
        "cores": (prices.core_hour, cores * 24.0),
    }
    return {name: price * amount for name, (price, amount) in found.items() if price is not None}
