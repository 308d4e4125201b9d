"""Logs of many hosts as they arrive: in order of each host, unevenly many, some of them delayed for a while.

Times are microseconds from the beginning of the logs. A host writes at random moments at a rate of its own,
and its rows arrive in the order in which they were written, a few seconds later; those that it writes while
it is delayed arrive after that, one after the other, until it has caught up. A step is what one micro-batch
reads.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

    Longs = npt.NDArray[np.int64]

SECOND = 1_000_000
MINUTE = 60 * SECOND
STEP = MINUTE
WINDOW = 5 * MINUTE
EPOCH = 1_763_700_000 * SECOND
FULL_MINUTES = 60  # in which windows are judged
LOG_MINUTES = 80  # hosts write on, a row a minute: every watermark gets past the judged windows
FIRST_OUTAGE, OUTAGE = 20 * MINUTE, 20 * MINUTE
NEVER = -(2**62)
"""The greatest time of a host of which no row has come."""

RACK = 100  # hosts that share a partition of the topic

_SHIPPING = 5 * SECOND
_UNEVEN = (
    0.7  # sigma of the rates' logarithm: the busiest of 10,000 hosts has a hundred times the idlest's rows
)
_CATCH_UP, _MORE_CATCH_UP = MINUTE, 2 * MINUTE


@dataclass(frozen=True)
class Outage:
    """A host whose log doesn't come for a while.

    Attributes:
        start, end: the moments between which nothing of the host arrives.
        caught_up: when the last of what was written meanwhile has arrived.
    """

    host: int
    start: int
    end: int
    caught_up: int


@dataclass(frozen=True)
class Logs:
    """Rows in the order in which they arrive.

    Attributes:
        hosts: how many there are; `host` is below it.
        time: when a row was written.
        step: the step in which it arrives.
    """

    hosts: int
    host: Longs
    time: Longs
    step: Longs

    @property
    def windows(self) -> int:
        """Windows that are judged, from 0 on."""
        return FULL_MINUTES * MINUTE // WINDOW

    @property
    def steps(self) -> int:
        """How many there are."""
        return int(self.step[-1]) + 1

    @cached_property
    def arrived(self) -> Longs:
        """The rows of each window (first axis) that have arrived up to the end of each step."""
        window = self.time // WINDOW
        judged = window < self.windows
        cells = np.bincount(
            window[judged] * self.steps + self.step[judged], minlength=self.windows * self.steps
        )
        return cells.reshape(self.windows, self.steps).cumsum(axis=1)

    @cached_property
    def furthest(self) -> Longs:
        """The greatest time of each host (second axis) that has arrived up to the end of each step."""
        found = np.full((self.steps, self.hosts), NEVER)
        np.maximum.at(found, (self.step, self.host), self.time)
        return np.maximum.accumulate(found, axis=0)


def no_outages(_hosts: int, _rng: np.random.Generator) -> list[Outage]:
    """No host is delayed."""
    return []


def few_outages(hosts: int, rng: np.random.Generator) -> list[Outage]:
    """At every moment at most 0.1 % of the hosts are delayed, or catch up: others in turn."""
    found = []
    chosen = iter(rng.permutation(hosts).tolist())
    for _ in range(hosts // 1_000):
        at = int(rng.integers(0, 10 * MINUTE))
        while at < FULL_MINUTES * MINUTE:
            end = at + int(rng.integers(10 * MINUTE, 30 * MINUTE))
            caught_up = end + _catch_up(rng)
            found.append(Outage(next(chosen), at, end, caught_up))
            at = caught_up + int(rng.integers(0, 5 * MINUTE))
    return found


def many_outages(hosts: int, rng: np.random.Generator) -> list[Outage]:
    """5 % of the hosts, whole racks, are delayed for twenty minutes; each catches up at its own speed."""
    end = FIRST_OUTAGE + OUTAGE
    first = hosts // 2
    return [
        Outage(host, FIRST_OUTAGE, end, end + _catch_up(rng)) for host in range(first, first + hosts // 20)
    ]


def _catch_up(rng: np.random.Generator) -> int:
    """A minute, or a few more: some hosts are far slower than the others."""
    return _CATCH_UP + int(rng.exponential(_MORE_CATCH_UP))


def generate(hosts: int, rows_per_window: int, outages: list[Outage], rng: np.random.Generator) -> Logs:
    """Makes the logs.

    Args:
        hosts: how many.
        rows_per_window: of a host, on average, until `FULL_MINUTES`.
        outages: hosts that are delayed; at most one at a time of a host.
        rng: the random numbers.
    """
    full = FULL_MINUTES * MINUTE
    rates = rows_per_window * rng.lognormal(-(_UNEVEN**2) / 2, _UNEVEN, hosts)
    # A row a minute at least: a host that writes nothing for minutes can't be told from a delayed one.
    rates = np.maximum(rates, WINDOW / MINUTE)
    counts = rng.poisson(rates * (full // WINDOW))
    tail = np.arange(FULL_MINUTES, LOG_MINUTES) * MINUTE
    host = np.concatenate([np.repeat(np.arange(hosts), counts), np.repeat(np.arange(hosts), len(tail))])
    time = np.concatenate(
        [
            rng.integers(0, full, int(counts.sum())),
            np.tile(tail, hosts) + rng.integers(0, MINUTE, hosts * len(tail)),
        ]
    )
    order = np.lexsort((time, host))
    host, time = host[order], time[order]
    arrival = time + rng.exponential(_SHIPPING, len(time)).astype(np.int64)
    first = np.searchsorted(host, np.arange(hosts + 1))
    for outage in outages:
        own = slice(first[outage.host], first[outage.host + 1])
        written = time[own]
        held = (written >= outage.start) & (written < outage.end)
        share = (written[held] - outage.start) / (outage.end - outage.start)
        behind = (outage.end + share * (outage.caught_up - outage.end)).astype(np.int64)
        arrival[own][held] = np.maximum(arrival[own][held], behind)
    # In order, host by host: nothing overtakes what was written before it.
    spread = host * (1_000 * MINUTE)
    arrival = np.maximum.accumulate(arrival + spread) - spread
    order = np.argsort(arrival, kind="stable")
    return Logs(hosts, host[order], time[order], arrival[order] // STEP)


def write(logs: Logs, path: Path) -> list[str]:
    """Writes the logs as Parquet, a file a step, and returns the hosts' names."""
    names = [f"host-{n:06d}" for n in range(logs.hosts)]
    path.mkdir()
    edges = np.searchsorted(logs.step, np.arange(logs.steps + 1))
    for step, (begin, end) in enumerate(pairwise(edges)):
        host = pa.DictionaryArray.from_arrays(logs.host[begin:end].astype(np.int32), pa.array(names))
        time = pa.array(logs.time[begin:end] + EPOCH, pa.timestamp("us", "UTC"))
        file = path / f"{step:05d}.parquet"
        pq.write_table(pa.table({"event_time": time, "hostname": host.cast(pa.string())}), file)
        os.utime(file, (1_600_000_000 + step, 1_600_000_000 + step))
    return names
