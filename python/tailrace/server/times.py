"""Times, lags and URLs for people."""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING
from urllib.parse import unquote, unquote_plus, urlsplit

if TYPE_CHECKING:
    from collections.abc import Sequence

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_SECOND = 1_000_000
_MINUTE = 60 * _SECOND
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_SHOWN = 10


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


def shown_some(names: Sequence[str], most: int = 5, *, quoted: bool = True) -> str:
    """The first of some names, and how many more there are.

    Args:
        names: for instance of hosts.
        most: how many are named.
        quoted: each as Python writes it, so that no name is taken for the text around it.
    """
    shown = ", ".join(repr(name) if quoted else name for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most:,} others"


def shown_url(url: str) -> str:
    """A URL without its secrets: the password, wherever it stands."""
    try:
        parts = urlsplit(url)
        hidden = without_secrets(url, url)
    except ValueError:
        return url.partition("://")[0] + "://..."
    # Whatever the rest of a broken URL is.
    return hidden if parts.scheme else f"{hidden.partition('@')[0][:_SHOWN]}..."


def without_secrets(text: str, url: str) -> str:
    """A text, for instance a driver's error, without the secrets of a URL."""
    for secret in sorted(secrets_of(url), key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


def secrets_of(url: str) -> set[str]:
    """The passwords in a database's URL, as they stand there and as they are meant."""
    found: set[str] = set()
    authority = (url.partition("://")[2] or url).partition("/")[0]
    if "@" in authority:
        found.add(authority.rpartition("@")[0].partition(":")[2])
    for field in re.split(r"[?&]", url)[1:]:
        name, _, value = field.partition("=")
        if "password" in name.lower():
            found.add(value)
    return {text for raw in found for text in (raw, unquote(raw), unquote_plus(raw)) if text}
