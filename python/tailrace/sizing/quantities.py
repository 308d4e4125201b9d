"""Rates, sizes and durations, as people write and read them. Units are of 1,000, not of 1,024."""

from __future__ import annotations

import re

_PREFIXES = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "p": 1e15}
_SECONDS = {
    "ms": 0.001,
    "millisecond": 0.001,
    "s": 1.0,
    "sec": 1.0,
    "second": 1.0,
    "m": 60.0,
    "min": 60.0,
    "minute": 60.0,
    "h": 3600.0,
    "hour": 3600.0,
    "d": 86_400.0,
    "day": 86_400.0,
    "week": 604_800.0,
}
_SHOWN = ((86_400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"), (0.001, "ms"))
_NUMBER = re.compile(r"\s*([\d,_]*\.?\d+(?:e\d+)?)\s*([a-z/ ]*?)\s*", re.IGNORECASE)
_STEP = 1000
_WHOLE = 100  # from here on, no decimals
_DAYS_FROM = 172_800.0  # up to two days, hours say more


def rate(text: str) -> float:
    """Rows a second: "5M", "300k", "1,200/s".

    Raises:
        ValueError: it isn't one; the text says what one looks like.
    """
    number, unit = _split(text, "a rate", "rows a second, such as 5M, 300k or 1200")
    for ending in ("/s", "rows/s", "events/s", " rows", " events"):
        unit = unit.removesuffix(ending)
    if unit.strip() not in _PREFIXES:
        raise ValueError(
            f"{text!r} isn't a rate: {unit!r} is none of k, M, G. Write rows a second, such as 5M"
        )
    return number * _PREFIXES[unit.strip()]


def size(text: str) -> float:
    """Bytes: "200", "200 bytes", "1k", "64 MB".

    Raises:
        ValueError: it isn't one; the text says what one looks like.
    """
    number, unit = _split(text, "a size", "bytes, such as 200, 1k or 64 MB")
    prefix = "" if unit in {"b", "byte", "bytes"} else unit.removesuffix("b")
    if prefix not in _PREFIXES:
        raise ValueError(
            f"{text!r} isn't a size: {unit!r} is none of B, k, kB, MB, GB, TB. Units are of 1,000"
        )
    return number * _PREFIXES[prefix]


def duration(text: str) -> float:
    """Seconds: "24 hours", "10s", "22.5 min", "0 seconds".

    Raises:
        ValueError: it isn't one; the text says what one looks like.
    """
    example = 'a number and a unit, such as "24 hours", "30 min" or "10s"'
    number, unit = _split(text, "a duration", example)
    known = unit if unit in _SECONDS else unit.removesuffix("s")
    if known not in _SECONDS:
        wrong = f"{unit!r} is no unit of time" if unit else "it has no unit"
        raise ValueError(f"{text!r} isn't a duration: {wrong}. Write {example}")
    return number * _SECONDS[known]


def _split(text: str, kind: str, example: str) -> tuple[float, str]:
    found = _NUMBER.fullmatch(text)
    if not found:
        raise ValueError(f"{text!r} isn't {kind}. Write {example}")
    return float(found[1].replace(",", "").replace("_", "")), found[2].lower()


def show_count(count: float) -> str:
    """A number with a unit of 1,000: 950, 1.2 k, 34.5 M, 433 G."""
    return _scaled(count, "", " ").strip()


def show_bytes(count: float) -> str:
    """A number of bytes: 200 B, 1.2 kB, 95 TB."""
    return _scaled(count, "B", " ")


def show_seconds(seconds: float) -> str:
    """A duration in the largest unit that fits: 85 ms, 9.5 s, 22.5 min, 24 h, 7 d."""
    for length, unit in _SHOWN:
        if seconds >= length and not (unit == "d" and seconds < _DAYS_FROM):
            return f"{_digits(seconds / length)} {unit}"
    return f"{_digits(seconds * 1000)} ms" if seconds else "0 s"


def _scaled(count: float, unit: str, space: str) -> str:
    names = ("", "k", "M", "G", "T", "P", "E")
    at = 0
    while count >= _STEP - 0.5 and at < len(names) - 1:
        count, at = count / _STEP, at + 1
    return f"{_digits(count)}{space}{names[at]}{unit}"


def _digits(value: float) -> str:
    """About three digits, and no zeros behind the point."""
    if value >= _WHOLE:
        return f"{value:,.0f}"
    return f"{value:.3g}"
