"""The page of a reconciliation: one HTML file that needs no other."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tailrace._installation.extras import install
from tailrace._version import __version__
from tailrace.errors import TailraceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Row

    from tailrace._reconciling.counts import Totals, WindowCounts

_EPOCH = dt.datetime(1970, 1, 1)  # in UTC, as all times here
# Bars and rows that one can read.
_MOST_BARS, _MOST_ROWS = 120, 200
# Text of 13 units can be read at the width of a phone, and isn't huge on a screen.
_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP = 520, 220, 48, 28, 12
_LINES = 4


@dataclass(frozen=True)
class Bar:
    """Differences of a window, or of several that follow each other: places of the chart, and a title."""

    x: float
    width: float
    unexplained_y: float
    unexplained_height: float
    explained_y: float
    explained_height: float
    title: str


@dataclass(frozen=True)
class Chart:
    """Bars over the windows, with the lines of a grid: place and label."""

    bars: Sequence[Bar]
    grid: Sequence[tuple[float, str]]
    first: str
    last: str
    width: int = _WIDTH
    height: int = _HEIGHT
    left: int = _LEFT
    bottom: int = _HEIGHT - _BOTTOM


def page(totals: Totals, windows: Sequence[WindowCounts], length: int, keys: Sequence[Row]) -> str:
    """The page.

    Args:
        totals: the counts of all compared windows.
        windows: those of each.
        length: of a window, in microseconds.
        keys: some of the keys that differ.

    Raises:
        TailraceError: jinja2 isn't installed.
    """
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415  of an extra
    except ModuleNotFoundError as error:
        raise TailraceError(
            f"`write_html` needs jinja2, which isn't installed: {install('html')}."
        ) from error
    environment = Environment(
        loader=PackageLoader("tailrace._reconciling"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": _number, "share": _share, "time": _time}
    compared = [window for window in windows if window.is_compared]
    # Windows that differ are those that one looks for.
    listed = sorted(
        sorted(windows, key=lambda one: not (one.is_compared and one.differences))[:_MOST_ROWS], key=_order
    )
    return environment.get_template("page.html").render(
        version=__version__,
        totals=totals,
        verdict=verdict(totals),
        chart=chart(compared, length),
        windows=listed,
        left_out=len(windows) - len(listed),
        length=dt.timedelta(microseconds=length),
        reasons=totals.ordered_reasons,
        keys=[row.asDict() for row in keys],
        samples=any(of.landed.weight != of.landed.rows for one in compared for of in one.labels.values()),
    )


def verdict(totals: Totals) -> str:
    """The result in a sentence."""
    if totals.windows == 0:
        return "No window was compared: none is complete and in the range."
    of = f"{totals.windows:,} windows, {totals.batch_rows:,} rows of the batch answer"
    if totals.differences == 0:
        return f"Equal: {of}."
    left = totals.differences - totals.explained
    rate = "" if totals.per_thousand is None else f", {totals.per_thousand:.3g} per thousand"
    told = f"{totals.differences:,} differences{rate}, {left:,} of them unexplained"
    return f"{'Different' if left else 'Equal but for explained differences'}: {of}, {told}."


def chart(windows: Sequence[WindowCounts], length: int) -> Chart | None:
    """The differences per thousand rows, by window; None without windows."""
    timed = [window for window in windows if window.start is not None]
    if not timed:
        return None
    size = -(-len(timed) // _MOST_BARS)
    groups = [timed[i : i + size] for i in range(0, len(timed), size)]
    values = [_shares(group) for group in groups]
    top = max((unexplained + explained for unexplained, explained in values), default=0.0)
    step = _step(top)
    most = step * max(1, -int(-top // step))
    room = _HEIGHT - _BOTTOM - _TOP

    def height(value: float) -> float:
        return round(value / most * room, 2)

    width = (_WIDTH - _LEFT) / len(groups)
    bottom = _HEIGHT - _BOTTOM
    bars: list[Bar] = []
    for i, (group, (unexplained, explained)) in enumerate(zip(groups, values, strict=True)):
        below, above = height(unexplained), height(explained)
        title = (
            f"{_time(group[0].start)}: {unexplained + explained:.3g} per thousand, "
            f"{unexplained:.3g} of them unexplained"
        )
        x, gap = _LEFT + i * width, min(2.0, width / 5)
        bars.append(
            Bar(
                round(x, 2),
                round(width - gap, 2),
                bottom - below,
                below,
                bottom - below - above,
                above,
                title,
            )
        )
    grid = [(round(bottom - height(i * step), 2), f"{i * step:g}") for i in range(round(most / step) + 1)]
    return Chart(bars, grid, _time(timed[0].start), _time((timed[-1].start or 0) + length))


def _shares(windows: Sequence[WindowCounts]) -> tuple[float, float]:
    """Unexplained and explained differences per thousand rows; without rows, of the differences."""
    rows = sum(window.batch_rows for window in windows)
    differences = sum(window.differences for window in windows)
    explained = sum(window.explained for window in windows)
    per = 1000 / (rows or differences or 1)
    return (differences - explained) * per, explained * per


def _step(top: float) -> float:
    """A step of the axis: 1, 2 or 5 times a power of ten."""
    if top <= 0:
        return 1.0
    power = 1e-6
    while True:
        for step in (power, 2 * power, 5 * power):
            if step * _LINES >= top:
                return step
        power *= 10


def _order(window: WindowCounts) -> tuple[bool, int]:
    return window.start is not None, window.start or 0


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.3g}"


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.2%}"


def _time(micros: int | None) -> str:
    if micros is None:
        return "no time"
    try:
        moment = _EPOCH + dt.timedelta(microseconds=micros)
    except OverflowError:
        return f"{micros} µs"
    return moment.isoformat(" ", "seconds" if moment.second or moment.microsecond else "minutes")
