"""Times, lags and URLs for people."""

from __future__ import annotations

import datetime as dt
from urllib.parse import urlsplit

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_SECOND = 1_000_000
_MINUTE = 60 * _SECOND
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR


def shown_time(time: int | None) -> str:
    """A time in UTC to the millisecond, without zeros that say nothing; a dash for none.

    Args:
        time: microseconds since 1970-01-01 UTC, at most `protocol.MAX_TIME`.
    """
    if time is None:
        return "–"  # noqa: RUF001  a dash, as it is meant
    text = f"{_EPOCH + dt.timedelta(microseconds=time):%Y-%m-%d %H:%M:%S}"
    milliseconds = time % _SECOND // 1_000
    return f"{text}.{milliseconds:03d}" if milliseconds else text


def shown_lag(lag: int | None) -> str:
    """A duration with its two greatest units; "never" for none.

    Args:
        lag: microseconds; negative for a time in the future.
    """
    if lag is None:
        return "never"
    sign, rest = ("−", -lag) if lag < 0 else ("", lag)  # noqa: RUF001  a minus, as it is meant
    if rest < _MINUTE:
        return f"{sign}{rest / _SECOND:.1f} s"
    for unit, name, below, below_name in (
        (_DAY, "d", _HOUR, "h"),
        (_HOUR, "h", _MINUTE, "min"),
        (_MINUTE, "min", _SECOND, "s"),
    ):
        if rest >= unit:
            return f"{sign}{rest // unit:,} {name} {rest % unit // below} {below_name}"
    raise AssertionError(lag)


def shown_url(url: str) -> str:
    """A URL without its password."""
    try:
        password = urlsplit(url).password
    except ValueError:
        return url.partition("://")[0] + "://..."
    return url.replace(f":{password}@", ":***@") if password else url
