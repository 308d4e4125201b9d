"""When windows close by each rule, computed from the logs: after which step, so which rows are in them.

A rule's watermark after a step follows from all rows up to that step. Spark closes by it in the next step,
and counts that step's rows before it closes; Flink closes at once. A row that comes in a later step is lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from simulated_logs import FULL_MINUTES, LOG_MINUTES, MINUTE, RACK, SECOND, STEP, WINDOW

if TYPE_CHECKING:
    from collections.abc import Callable

    from simulated_logs import Logs, Longs

_MS = 1_000


@dataclass(frozen=True)
class Closing:
    """How the judged windows have closed.

    Attributes:
        rows: of each window, those counted before it closed.
        step: in which it closed; -1: it is open still.
    """

    rows: Longs
    step: Longs

    def lags(self) -> Longs:
        """Of each window that has closed: from its end to that of the step in which it has; microseconds."""
        closed = self.step >= 0
        ends = (np.arange(len(self.step)) + 1) * WINDOW
        return ((self.step + 1) * STEP - ends)[closed]


def truth(logs: Logs) -> Longs:
    """The rows of each window that is judged, whenever they arrive."""
    return logs.arrived[:, -1]


def tailrace_rule(logs: Logs, allowed: int) -> Longs:
    """Spark's watermark after each step: where all hosts but some have been read to, less a millisecond."""
    low = np.partition(logs.furthest, allowed, axis=1)[:, allowed]
    before: Longs = (low - 1) // _MS * _MS
    return before


def spark_rule(logs: Logs, delay: int) -> Longs:
    """Spark's watermark after each step: the greatest time of all, less a delay."""
    greatest: Longs = logs.furthest.max(axis=1)
    return greatest // _MS * _MS - delay


def flink_rule(logs: Logs, bound: int, idle_after: int | None) -> Longs:
    """Flink's watermark after each step: the least of partitions that aren't idle, of bounded disorder.

    A partition has the hosts of a rack. A millisecond more than Flink's, which closes what ends behind it.
    """
    furthest = np.maximum.reduceat(logs.furthest, np.arange(0, logs.hosts, RACK), axis=1)
    if idle_after is not None:
        steps, racks = furthest.shape
        came = np.zeros((steps, racks), bool)
        came[logs.step, logs.host // RACK] = True
        last = np.maximum.accumulate(np.where(came, np.arange(steps)[:, None], -1), axis=0)
        idle = (np.arange(steps)[:, None] - last) * STEP >= idle_after
        furthest = np.where(idle & ~idle.all(axis=1, keepdims=True), np.iinfo(np.int64).max, furthest)
    least: Longs = furthest.min(axis=1)
    return least - bound


def close(logs: Logs, watermark: Longs, *, steps_later: int) -> Closing:
    """Closes windows by a watermark.

    Args:
        logs: the rows.
        watermark: after each step; where it is behind an earlier one, that one counts.
        steps_later: 1 for Spark, 0 for Flink.
    """
    ends = (np.arange(logs.windows) + 1) * WINDOW
    reached = np.searchsorted(np.maximum.accumulate(watermark), ends)
    closed = reached < logs.steps
    # Spark runs a last micro-batch without rows for what the last one with rows has closed.
    step = reached + steps_later
    rows = logs.arrived[np.arange(logs.windows), np.minimum(step, logs.steps - 1)]
    return Closing(np.where(closed, rows, 0), np.where(closed, step, -1))


def least_delay(logs: list[Logs], most: list[float], rule: Callable[[Logs, int], Closing]) -> int:
    """The least delay in whole seconds with which a rule loses at most a given share of each of some logs."""
    # With a longer one the last windows would be open at the end of the logs.
    low, high = 0, ((LOG_MINUTES - FULL_MINUTES) * MINUTE - 2 * STEP) // SECOND
    while low < high:
        delay = (low + high) // 2
        enough = all(
            lost(rule(one, delay), truth(one)) <= share for one, share in zip(logs, most, strict=True)
        )
        low, high = (low, delay) if enough else (delay + 1, high)
    return low


def lost(closing: Closing, whole: Longs) -> float:
    """The share of all rows that aren't in their window."""
    return 1 - int(closing.rows.sum()) / int(whole.sum())
