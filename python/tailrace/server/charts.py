"""The geometry of the page's two drawings; the templates make SVG of it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

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
_WIDTH, _HEIGHT = 1_040, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 92, 12, 12, 28
_SECOND = 1_000_000
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
    """Lines over a grid, of which each line has its place and its lag."""

    begin: int
    end: int
    grid: Sequence[tuple[float, int]]
    lines: Sequence[Line]
    width: int = _WIDTH
    height: int = _HEIGHT
    left: int = _LEFT
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
    lags = [_lag(point) for points in series.values() for point in points]
    top, bottom = max(lags), min(0, *lags)
    step = _step(top - bottom)
    top = max(step, -(-top // step) * step)

    def x(time: int) -> float:
        return _LEFT + (time - begin) / max(end - begin, 1) * (_WIDTH - _LEFT - _RIGHT)

    def y(lag: int) -> float:
        return _HEIGHT - _BOTTOM - (lag - bottom) / (top - bottom) * (_HEIGHT - _TOP - _BOTTOM)

    return LagChart(
        begin,
        end,
        grid=[(round(y(n * step), 1), n * step) for n in range(-(-bottom // step), top // step + 1)],
        lines=[
            Line(name, " ".join(f"{x(p.at):.1f},{y(_lag(p)):.1f}" for p in points), _lag(points[-1]))
            for name, points in series.items()
        ],
    )


def _lag(point: HistoryPoint) -> int:
    return point.at - point.low_watermark


def _step(span: int) -> int:
    wanted = span / _LINES / _SECOND
    if wanted > _STEPS[-1]:
        return int(-(-wanted // _STEPS[-1])) * _STEPS[-1] * _SECOND
    return next(step for step in _STEPS if step >= wanted) * _SECOND
