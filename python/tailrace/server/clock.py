"""Two clocks: one that people may set, and one for durations that nobody sets."""

from __future__ import annotations

import time
from dataclasses import dataclass

SECOND = 1_000_000


@dataclass(frozen=True)
class Moment:
    """Now.

    Attributes:
        at: microseconds since 1970-01-01 UTC, by a clock that people may set.
        tick: microseconds of a clock that nobody sets, for durations.
    """

    at: int
    tick: int


def wall_clock() -> int:
    """Microseconds since 1970-01-01 UTC."""
    return time.time_ns() // 1_000


def ticks() -> int:
    """Microseconds of a clock that nobody sets."""
    return time.monotonic_ns() // 1_000
