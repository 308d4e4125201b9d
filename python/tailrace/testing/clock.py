"""Times of a test: clock times of one day, in UTC."""

from __future__ import annotations

import datetime as dt
import re

DAY = dt.date(2026, 1, 1)
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_CLOCK_TIME = re.compile(r"\d{1,2}:\d{2}(:\d{2}(\.\d{1,6})?)?")

Time = str | dt.datetime


def at(time: Time) -> dt.datetime:
    """A time in UTC.

        at("12:07")                # on 1 January 2026
        at("12:07:30.5")
        at("2026-01-02 00:10")

    Args:
        time: a clock time of 1 January 2026, a date and a time in ISO format, or a datetime. Without a zone,
            it is in UTC.

    Raises:
        ValueError: the text is none of these.
    """
    if isinstance(time, str):
        text = time.strip()
        if _CLOCK_TIME.fullmatch(text):
            text = f"{DAY.isoformat()} {text.zfill(5) if text.count(':') == 1 else text.rjust(8, '0')}"
        try:
            time = dt.datetime.fromisoformat(text)
        except ValueError:
            raise ValueError(
                f"{time!r} is no time: give '12:07', '12:07:30', '2026-01-02 12:07' or a datetime"
            ) from None
    return time.replace(tzinfo=dt.UTC) if time.tzinfo is None else time.astimezone(dt.UTC)


def millis(time: dt.datetime) -> int:
    """Milliseconds since 1970, rounded down, as Spark's clock has them."""
    return (time - _EPOCH) // dt.timedelta(milliseconds=1)


def from_millis(number: int) -> dt.datetime:
    """The time of a number of milliseconds since 1970."""
    return _EPOCH + dt.timedelta(milliseconds=number)


def check_order(now: dt.datetime, to: dt.datetime) -> None:
    """Refuses a time in the past.

    Raises:
        ValueError: it is before `now`.
    """
    if millis(to) < millis(now):
        times = f"it is {now:%Y-%m-%d %H:%M:%S}, and {to:%Y-%m-%d %H:%M:%S} is over"
        raise ValueError(f"the clock doesn't go back: {times}")
