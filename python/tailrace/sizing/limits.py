"""The limits for a growing number of events: each limit, its distance, and the setting that moves it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tailrace.sizing.needs import needs
from tailrace.sizing.quantities import show_bytes, show_count, show_seconds
from tailrace.sizing.state import state
from tailrace.sizing.work import batch, busy_cores

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.sizing.load import Load

_DRIVER_SHARE = 0.5  # of a trigger: in the driver's time no executor works
_MOST = 2.0**20  # times today's events: above that, events aren't what breaks it
_HALVINGS = 40


@dataclass(frozen=True)
class Limit:
    """A limit that a load may exceed.

    Attributes:
        name: of the limit.
        value: the use by the load.
        limit: the maximum.
        unit: of both: "s", "bytes", "cores", "1/s".
        events: rows per second of both streams at which it is exceeded, with these partitions and cores; None
            if it doesn't depend on them.
        then: the effect of exceeding it.
        setting: the remedy.
    """

    name: str
    value: float
    limit: float
    unit: str
    events: float | None
    then: str
    setting: str

    @property
    def broken(self) -> bool:
        """True if this load exceeds the limit."""
        return self.value > self.limit

    def __str__(self) -> str:
        """The used share, and the load at which the limit is reached."""
        show = _SHOW[self.unit]
        until = f"; breaks at {show_count(self.events)} rows/s" if self.events is not None else ""
        return f"{self.name}: {show(self.value)} of {show(self.limit)}{until}"


_SHOW: dict[str, Callable[[float], str]] = {
    "s": show_seconds,
    "bytes": show_bytes,
    "cores": lambda cores: f"{show_count(cores)} cores",
    "1/s": lambda number: f"{show_count(number)}/s",
}


@dataclass(frozen=True)
class _Rule:
    name: str
    unit: str
    then: str
    setting: str
    # The use by a load with these partitions and cores, and the supply; None where it isn't needed.
    measure: Callable[[Load, int, int], tuple[float, float] | None]


def limits(load: Load, partitions: int, cores: int) -> tuple[Limit, ...]:
    """All limits that apply, in the order in which a growing load exceeds them.

    Args:
        load: the load.
        partitions: of the state.
        cores: of all executors.
    """
    found: list[tuple[float, float, Limit]] = []
    for rule in _RULES:
        measured = rule.measure(load, partitions, cores)
        if measured is None:
            continue
        value, limit = measured
        times = _breaks_at(rule, load, partitions, cores)
        # Limits that no number of events reaches come after the others, unless they are exceeded already.
        events = None if times is None else times * load.rows
        rank = times if times is not None else (0.0 if value > limit else _MOST)
        found.append(
            (rank, -value / limit, Limit(rule.name, value, limit, rule.unit, events, rule.then, rule.setting))
        )
    return tuple(limit for _, _, limit in sorted(found, key=lambda entry: entry[:2]))


def _breaks_at(rule: _Rule, load: Load, partitions: int, cores: int) -> float | None:
    """The multiple of the load's events at which the limit is exceeded."""

    def broken(times: float) -> bool:
        measured = rule.measure(
            replace(load, left=load.left * times, right=load.right * times), partitions, cores
        )
        return measured is not None and measured[0] > measured[1]

    low, high = 1 / _MOST, _MOST
    if broken(low) or not broken(high):
        return None
    for _ in range(_HALVINGS):
        middle = (low * high) ** 0.5
        low, high = (low, middle) if broken(middle) else (middle, high)
    return high


def _batch(load: Load, partitions: int, cores: int) -> tuple[float, float]:
    return batch(load, partitions, cores).spread, load.trigger


def _longest(load: Load, partitions: int, cores: int) -> tuple[float, float]:
    takes = batch(load, partitions, cores)
    return takes.driver + takes.longest_task, load.trigger


def _driver(load: Load, partitions: int, cores: int) -> tuple[float, float]:
    takes = batch(load, partitions, cores)
    return takes.driver - takes.landing, load.trigger * _DRIVER_SHARE


def _landing(load: Load, partitions: int, cores: int) -> tuple[float, float] | None:
    if not load.windows_open:
        return None
    return batch(load, partitions, cores).landing, load.trigger * _DRIVER_SHARE


def _release(load: Load, partitions: int, _cores: int) -> tuple[float, float] | None:
    if load.eager:
        return None
    busy = busy_cores(load, partitions)
    return busy.release, busy.total - busy.release


def _puts(load: Load, partitions: int, cores: int) -> tuple[float, float]:
    return needs(load, partitions, cores).burst, load.writes


def _busy(load: Load, partitions: int, cores: int) -> tuple[float, float]:
    return busy_cores(load, partitions).total, float(cores)


def _disk(load: Load, partitions: int, cores: int) -> tuple[float, float] | None:
    if load.executor_disk is None:
        return None
    # The partitions of a lost executor come to the others.
    executors = needs(load, partitions, cores).executors
    return state(load, partitions).local_bytes / max(1, executors - 1), load.executor_disk


def _heap(load: Load, partitions: int, cores: int) -> tuple[float, float] | None:
    if load.executor_memory is None:
        return None
    return needs(load, partitions, cores).executor_heap, load.executor_memory


def _driver_heap(load: Load, partitions: int, cores: int) -> tuple[float, float] | None:
    if load.driver_memory is None:
        return None
    return needs(load, partitions, cores).driver_memory, load.driver_memory * _DRIVER_SHARE


def _recovery(load: Load, partitions: int, cores: int) -> tuple[float, float] | None:
    if load.recovery is None:
        return None
    return needs(load, partitions, cores).recovery, load.recovery


_RULES = (
    _Rule(
        "time of a micro-batch",
        "s",
        "micro-batches take longer than the trigger, and the query falls behind",
        "more cores, or a longer trigger",
        _batch,
    ),
    _Rule(
        "busy cores",
        "cores",
        "the query and its compaction need more cores than there are",
        "more cores",
        _busy,
    ),
    _Rule(
        "longest task",
        "s",
        "the partition that releases a step of its rows holds up its micro-batch",
        "more partitions, or a shorter release_every",
        _longest,
    ),
    _Rule(
        "driver",
        "s",
        "the driver schedules and collects while the executors wait",
        "fewer partitions, or a longer trigger",
        _driver,
    ),
    _Rule(
        "landing of files",
        "s",
        "the driver moves files of write_windows while the executors wait",
        "fewer partitions in front of write_windows (coalesce), or a longer trigger",
        _landing,
    ),
    _Rule(
        "release of left rows",
        "cores",
        "each release reads the right rows of the whole window for a few left rows",
        "a longer release_every, or a longer trigger",
        _release,
    ),
    _Rule(
        "PUT requests",
        "1/s",
        "the object store answers 503, and tasks wait and ask again",
        "fewer partitions, or a longer trigger",
        _puts,
    ),
    _Rule(
        "local disk of an executor",
        "bytes",
        "the disk is full when one executor is lost, and tasks fail",
        "larger disks, or more executors",
        _disk,
    ),
    _Rule(
        "heap of an executor",
        "bytes",
        "tasks write more and smaller runs, and parts of rows wait in local files",
        "a larger spark.executor.memory, fewer cores an executor, or a smaller "
        "spark.tailrace.state.batchBufferBytes",
        _heap,
    ),
    _Rule(
        "heap of the driver",
        "bytes",
        "the driver runs out of memory",
        "a larger spark.driver.memory",
        _driver_heap,
    ),
    _Rule(
        "recovery of a lost executor",
        "s",
        "the micro-batch that runs waits until the partitions are back",
        "more and smaller executors",
        _recovery,
    ),
)
