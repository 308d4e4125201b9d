"""History as SVG: how far low watermarks were behind the clock, over time."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from tailrace.server.views import thinned
from tailrace.server.wording import shown_lag, shown_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tailrace.server.answers import History, HistoryPoint

_WIDTH, _HEIGHT = 1_040, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 92, 12, 12, 28
MAX_SERIES = 8
"""Series that a chart has at most."""

_SECOND = 1_000_000
# Steps of an axis of durations, in seconds, that people can read.
_STEPS = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600, 7_200, 21_600, 43_200, 86_400)
_LINES = 5


def lag_chart(history: History) -> str:
    """An SVG element and its legend: the lags of the global low watermark and of the slowest operators.

    Args:
        history: by operator; the global one under the empty name.
    """
    series = _chosen(history)
    if not any(len(points) > 1 for points in series.values()):
        return '<p class="none">History comes with time: there is a point every ten seconds.</p>'
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

    parts: list[str] = []
    for line in range(-(-bottom // step), top // step + 1):
        at = y(line * step)
        parts.append(f'<path class="grid" d="M{_LEFT} {at:.1f}H{_WIDTH - _RIGHT}"/>')
        parts.append(f'<text class="axis" x="{_LEFT - 8}" y="{at + 4:.1f}">{shown_lag(line * step)}</text>')
    for place, time in (("start", begin), ("end", end)):
        parts.append(
            f'<text class="axis {place}" x="{x(time):.1f}" y="{_HEIGHT - 8}">{shown_time(time)[11:]}</text>'
        )
    # The global one last, over the operator that it is equal to.
    for number, (name, points) in reversed(list(enumerate(series.items()))):
        line_points = " ".join(f"{x(p.at):.1f},{y(_lag(p)):.1f}" for p in points)
        parts.append(
            f'<polyline class="series s{number}" data-operator="{escape(name)}" points="{line_points}"/>'
        )
    return (
        f'<svg class="history" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="Lag over time">'
        f"{''.join(parts)}</svg>" + "".join(_legend(series))
    )


def _chosen(history: History) -> dict[str, Sequence[HistoryPoint]]:
    """The global series and the operators that are furthest behind, thinned to what a screen shows."""
    behind = sorted(
        (name for name in history.series if name), key=lambda name: history.series[name][-1].low_watermark
    )
    names = [name for name in ("", *behind[: MAX_SERIES - 1]) if name in history.series]
    return {name: thinned(history.series[name]) for name in names}


def _lag(point: HistoryPoint) -> int:
    return point.at - point.low_watermark


def _step(span: int) -> int:
    wanted = span / _LINES / _SECOND
    if wanted > _STEPS[-1]:
        return int(-(-wanted // _STEPS[-1])) * _STEPS[-1] * _SECOND
    return next(step for step in _STEPS if step >= wanted) * _SECOND


def _legend(series: dict[str, Sequence[HistoryPoint]]) -> Iterator[str]:
    yield '<ul class="legend">'
    for number, (name, points) in enumerate(series.items()):
        text = escape(name) if name else "<b>global</b>"
        yield f'<li class="s{number}">{text} <span>{shown_lag(_lag(points[-1]))}</span></li>'
    yield "</ul>"
