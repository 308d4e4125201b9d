"""The geometry of the page's two drawings; the templates make SVG of it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from tailrace.server.times import MINUTE, SECOND, shown_clock, shown_exact
from tailrace.server.topology import layers
from tailrace.server.views import thinned

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tailrace.server.answers import History, HistoryPoint, OperatorState

MAX_SERIES = 8
"""Lines that the chart of lags has at most."""

MOST_DRAWN = 200
"""Operators that the topology and the table show at most; nobody can read more of them."""

_MOST_EDGES = 2_000
_BOX_WIDTH, _BOX_HEIGHT = 232, 108
_GAP_X, _GAP_Y = 64, 18
_WIDTH, _HEIGHT = 1_040, 276
_RIGHT, _TOP, _BOTTOM = 28, 12, 44
# The width of a character of an axis, and the minimum room for its labels.
_CHARACTER, _LABELS = 6.6, 80
# Steps of an axis of durations, in seconds, that people can read.
_STEPS = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600, 7_200, 21_600, 43_200, 86_400)
_LINES = 5


@dataclass(frozen=True)
class Box:
    """An operator and the upper left corner of its box."""

    operator: OperatorState
    x: int
    y: int


@dataclass(frozen=True)
class Topology:
    """Operators in columns by their distance from a source; edges are the paths of curves."""

    width: int
    height: int
    boxes: Sequence[Box]
    edges: Sequence[str]
    box_width: int = _BOX_WIDTH
    box_height: int = _BOX_HEIGHT


@dataclass(frozen=True)
class Line:
    """The lag of an operator over time, and its newest value; the global one has an empty name."""

    operator: str
    points: str
    lag: int


@dataclass(frozen=True)
class LagChart:
    """Lines over a grid.

    Attributes:
        times: vertical lines of the grid: the place, milliseconds since 1970, and the time of day in UTC.
        grid: horizontal ones: the place, and the lag.
        bottom: the lag at which the axis begins, if that isn't zero.
        left: the place of the axis, which leaves room for its labels.
        has_seconds: the times of day have seconds.
    """

    times: Sequence[tuple[float, int, str]]
    grid: Sequence[tuple[float, str]]
    lines: Sequence[Line]
    bottom: str | None
    left: int
    has_seconds: bool
    width: int = _WIDTH
    height: int = _HEIGHT
    right: int = _WIDTH - _RIGHT


def topology(operators: Sequence[OperatorState]) -> Topology:
    """Places the operators of an application, the first MOST_DRAWN of them."""
    operators = operators[:MOST_DRAWN]
    columns: dict[int, list[str]] = defaultdict(list)
    for name, layer in layers({o.operator: o.upstreams for o in operators}).items():
        columns[layer].append(name)
    step_x, step_y = _BOX_WIDTH + _GAP_X, _BOX_HEIGHT + _GAP_Y
    height = max((len(names) for names in columns.values()), default=0) * step_y - _GAP_Y + 2
    at = {
        name: (layer * step_x + 1, int((height - len(names) * step_y + _GAP_Y) / 2 + row * step_y))
        for layer, names in columns.items()
        for row, name in enumerate(names)
    }
    return Topology(
        width=len(columns) * step_x - _GAP_X + 2,
        height=height,
        boxes=[Box(operator, *at[operator.operator]) for operator in operators],
        edges=[*islice(_edges(operators, at), _MOST_EDGES)],
    )


def _edges(operators: Sequence[OperatorState], at: dict[str, tuple[int, int]]) -> Iterator[str]:
    for operator in operators:
        for upstream in operator.upstreams:
            if upstream in at:
                (x1, y1), (x2, y2) = at[upstream], at[operator.operator]
                x1, y1, y2 = x1 + _BOX_WIDTH, y1 + _BOX_HEIGHT // 2, y2 + _BOX_HEIGHT // 2
                middle = (x1 + x2) // 2
                yield f"M{x1} {y1}C{middle} {y1} {middle} {y2} {x2} {y2}"


def lag_chart(history: History) -> LagChart | None:
    """Places the lags of the global low watermark and of the slowest operators; None while there are none.

    Args:
        history: low watermarks by operator; the global one has an empty name.
    """
    behind = sorted(
        (name for name in history.series if name), key=lambda o: history.series[o][-1].low_watermark
    )
    names = [name for name in ("", *behind[: MAX_SERIES - 1]) if name in history.series]
    series = {name: thinned(history.series[name]) for name in names}
    if not any(len(points) > 1 for points in series.values()):
        return None
    times = [point.at for points in series.values() for point in points]
    begin, end = min(times), max(times)
    bottom, top, step = _extent([_lag(point) for points in series.values() for point in points])
    labels = {lag: shown_exact(lag) for lag in range(-(-bottom // step) * step, top + 1, step)}
    left = max(_LABELS, 12 + int(_CHARACTER * max(map(len, labels.values()))))
    period = _step(end - begin)

    def x(time: int) -> float:
        return left + (time - begin) / max(end - begin, 1) * (_WIDTH - left - _RIGHT)

    def y(lag: int) -> float:
        return _HEIGHT - _BOTTOM - (lag - bottom) / (top - bottom) * (_HEIGHT - _TOP - _BOTTOM)

    return LagChart(
        times=[
            (round(x(time), 1), time // 1_000, shown_clock(time, with_seconds=period < MINUTE))
            for time in range(-(-begin // period) * period, end + 1, period)
        ],
        grid=[(round(y(lag), 1), label) for lag, label in labels.items()],
        lines=[
            Line(name, " ".join(f"{x(p.at):.1f},{y(_lag(p)):.1f}" for p in points), _lag(points[-1]))
            for name, points in series.items()
        ],
        bottom=shown_exact(bottom) if bottom > 0 else None,
        left=left,
        has_seconds=period < MINUTE,
    )


def _extent(lags: Sequence[int]) -> tuple[int, int, int]:
    """Where an axis of lags begins and ends, and its step.

    It begins at zero, unless the lags differ by less than half of the greatest one: from zero, 5 minutes more
    of a lag of 330 days would be a flat line.
    """
    least, most = min(lags), max(lags)
    if 0 < most - least < most / 2:
        step = _step(most - least)
        bottom = least // step * step
    else:
        bottom = min(0, least)
        step = _step(most - bottom)
    return bottom, max(bottom + step, -(-most // step) * step), step


def _lag(point: HistoryPoint) -> int:
    return point.at - point.low_watermark


def _step(span: int) -> int:
    wanted = span / _LINES / SECOND
    if wanted > _STEPS[-1]:
        return int(-(-wanted // _STEPS[-1])) * _STEPS[-1] * SECOND
    return next(step for step in _STEPS if step >= wanted) * SECOND
