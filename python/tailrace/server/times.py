"""Times: microseconds since 1970-01-01 UTC, the two clocks they are read from, and how people read them."""

from __future__ import annotations

import datetime as dt
import time
from dataclasses import dataclass
from itertools import pairwise

SECOND = 1_000_000
MINUTE = 60 * SECOND

EARLIEST = -(2**53 - 1)
"""The least time that JSON holds exactly, in 1684. It stands for no low watermark."""

NEVER = EARLIEST - 1
"""The progress of a host that was never seen: minus infinity, below all times."""

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_HOUR = 60 * MINUTE
_DAY = 24 * _HOUR
_UNITS = ((_DAY, "d"), (_HOUR, "h"), (MINUTE, "min"), (SECOND, "s"))


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


def shown_time(time: int | None) -> str:
    """A time in UTC to the millisecond, without zeros that say nothing; a dash for none.

    Args:
        time: microseconds since 1970-01-01 UTC, at most `protocol.MAX_TIME`.
    """
    if time is None:
        return "–"  # noqa: RUF001  a dash, as it is meant
    text = f"{_EPOCH + dt.timedelta(microseconds=time):%Y-%m-%d %H:%M:%S}"
    milliseconds = time % SECOND // 1_000
    return f"{text}.{milliseconds:03d}" if milliseconds else text


def shown_clock(time: int, *, with_seconds: bool) -> str:
    """The time of day in UTC, for an axis.

    Args:
        time: microseconds since 1970-01-01 UTC.
        with_seconds: 04:40:30; otherwise 04:40.
    """
    return f"{_EPOCH + dt.timedelta(microseconds=time):{'%H:%M:%S' if with_seconds else '%H:%M'}}"


def shown_exact(duration: int) -> str:
    """A duration of whole seconds with each unit that isn't zero, for an axis: "330 d 2 h 5 s".

    Args:
        duration: microseconds; negative for a time in the future.
    """
    sign, rest = _signed(duration)
    parts: list[str] = []
    for size, name in _UNITS:
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count:,} {name}")
    return sign + (" ".join(parts) or "0 s")


def shown_lag(lag: int | None) -> str:
    """A duration with its two greatest units; "never" for none.

    Args:
        lag: microseconds; negative for a time in the future.
    """
    if lag is None:
        return "never"
    sign, rest = _signed(lag)
    if rest < MINUTE:
        return f"{sign}{rest / SECOND:.1f} s"
    for (unit, name), (below, below_name) in pairwise(_UNITS):
        if rest >= unit:
            return f"{sign}{rest // unit:,} {name} {rest % unit // below} {below_name}"
    raise AssertionError(lag)


def _signed(duration: int) -> tuple[str, int]:
    """The sign of a duration as it is shown, and the rest."""
    return ("−", -duration) if duration < 0 else ("", duration)  # noqa: RUF001  a minus, as it is meant
