"""The topology as SVG: operators in columns by how far they are from a source, with their low watermarks."""

from __future__ import annotations

from collections import defaultdict
from html import escape
from itertools import islice
from typing import TYPE_CHECKING

from tailrace.server.topology import layers
from tailrace.server.wording import shown_lag, shown_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tailrace.server.answers import OperatorState

_WIDTH, _HEIGHT = 232, 92
_GAP_X, _GAP_Y = 64, 18
_LINE = 17
_CUT = 26
_MOST_EDGES = 2_000
MOST_DRAWN = 200
"""Operators of one drawing: of more nobody makes sense."""


def topology(operators: Sequence[OperatorState], held_by: Sequence[str]) -> str:
    """An SVG element.

    Args:
        operators: of one application.
        held_by: those that hold the global low watermark back; they are marked.
    """
    operators = operators[:MOST_DRAWN]
    columns: dict[int, list[str]] = defaultdict(list)
    for name, layer in layers({o.operator: o.upstreams for o in operators}).items():
        columns[layer].append(name)
    tallest = max((len(names) for names in columns.values()), default=0)
    height = tallest * (_HEIGHT + _GAP_Y) - _GAP_Y + 2
    width = len(columns) * (_WIDTH + _GAP_X) - _GAP_X + 2
    at = {
        name: (
            layer * (_WIDTH + _GAP_X) + 1,
            int((height - len(names) * (_HEIGHT + _GAP_Y) + _GAP_Y) / 2 + row * (_HEIGHT + _GAP_Y)),
        )
        for layer, names in columns.items()
        for row, name in enumerate(names)
    }
    parts = [*islice(_edges(operators, at), _MOST_EDGES)]
    for operator in operators:
        parts.extend(_box(operator, *at[operator.operator], holds=operator.operator in held_by))
    return (
        f'<svg class="topology" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="Topology">{"".join(parts)}</svg>'
    )


def _edges(operators: Sequence[OperatorState], at: dict[str, tuple[int, int]]) -> Iterator[str]:
    for operator in operators:
        for upstream in operator.upstreams:
            if upstream in at:
                (x1, y1), (x2, y2) = at[upstream], at[operator.operator]
                x1, y1, y2 = x1 + _WIDTH, y1 + _HEIGHT // 2, y2 + _HEIGHT // 2
                middle = (x1 + x2) // 2
                yield f'<path class="edge" d="M{x1} {y1}C{middle} {y1} {middle} {y2} {x2} {y2}"/>'


def _box(operator: OperatorState, x: int, y: int, *, holds: bool) -> Iterator[str]:
    name = operator.operator
    mark = " holds" if holds else ""
    yield f'<g class="operator is-{operator.kind}{mark}" data-operator="{escape(name)}" '
    yield f'transform="translate({x} {y})">'
    yield f"<title>{escape(name)}, {operator.kind}, reported by {escape(operator.client)}</title>"
    yield f'<rect width="{_WIDTH}" height="{_HEIGHT}" rx="6"/>'
    yield f'<rect class="stripe" width="5" height="{_HEIGHT}" rx="2"/>'
    cut = name if len(name) <= _CUT else f"{name[: _CUT - 1]}…"
    yield f'<text class="name" x="16" y="22">{escape(cut)}</text>'
    lines = (
        ("in", shown_time(operator.input_low_watermark)),
        ("out", shown_time(operator.output_low_watermark)),
        ("lag", shown_lag(operator.lag)),
    )
    for row, (what, value) in enumerate(lines):
        at = 43 + row * _LINE
        yield f'<text class="what" x="16" y="{at}">{what}</text>'
        yield f'<text class="{what}" x="48" y="{at}">{value}</text>'
    yield "</g>"
