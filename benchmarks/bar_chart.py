"""Draws bars as an SVG that can be read on white and on black."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_WIDTH, _LEFT, _RIGHT = 860, 330, 110
_TOP, _ROW, _BAR = 40, 34, 20
_STYLE = """<style>
    .ink { fill: #1f2328 } .soft { fill: #59636e } .bar { fill: #8c959f } .first { fill: #0969da }
    @media (prefers-color-scheme: dark) {
      .ink { fill: #f0f6fc } .soft { fill: #9198a1 } .bar { fill: #656c76 } .first { fill: #4493f8 }
    }
  </style>"""


def bar_chart(title: str, unit: str, bars: Sequence[tuple[str, float]]) -> str:
    """Returns an SVG with a bar per value, from zero on.

    Args:
        title: what is compared, for who doesn't see the bars.
        unit: of the values, above the bars.
        bars: names and values, from top to bottom; the first one is emphasized.
    """
    most = max(value for _, value in bars)
    height = _TOP + _ROW * len(bars)
    said = ", ".join(f"{name}: {value:,.0f}" for name, value in bars)
    box = f'viewBox="0 0 {_WIDTH} {height}" role="img" aria-labelledby="title desc"'
    font = 'font-family="ui-sans-serif, system-ui, sans-serif" font-size="14"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {box} {font}>',
        f'  <title id="title">{html.escape(title)}</title>',
        f'  <desc id="desc">{html.escape(unit)}: {html.escape(said)}.</desc>',
        f"  {_STYLE}",
        f'  <text class="soft" x="{_LEFT}" y="22">{html.escape(unit)}</text>',
    ]
    for number, (name, value) in enumerate(bars):
        y = _TOP + _ROW * number
        width = value / most * (_WIDTH - _LEFT - _RIGHT)
        middle = y + _BAR * 0.75
        kind = "bar" if number else "first"
        place = f'x="{_LEFT - 12}" y="{middle:.0f}" text-anchor="end"'
        lines += [
            f'  <text class="ink" {place}>{html.escape(name)}</text>',
            f'  <rect class="{kind}" x="{_LEFT}" y="{y}" width="{width:.1f}" height="{_BAR}" rx="3"/>',
            f'  <text class="ink" x="{_LEFT + width + 8:.1f}" y="{middle:.0f}">{value:,.0f}</text>',
        ]
    return "\n".join([*lines, "</svg>"]) + "\n"
