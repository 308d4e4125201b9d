"""The notebook's drawings: a timeline of a join in SVG, tables in HTML, and a slider over such pictures."""

from __future__ import annotations

import datetime as dt
import html
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_LEFT, _RIGHT, _TOP = 104, 240, 26  # for the lanes' names, for their notes, for the lines' names
_LANE, _MINUTE, _BAR = 24, 13, 16

# They can be seen on white and on black. Text has the colour of the page.
_WAITS, _OUT, _CLICK, _WATERMARK = "#2f81f7", "#2da44e", "#a371f7", "#d4671c"

# In a file of its own it has no page around it.
_ALONE = """<style>
  svg:root { color: #1f2328 }
  @media (prefers-color-scheme: dark) { svg:root { color: #f0f6fc } }
</style>"""


@dataclass(frozen=True)
class Click:
    """A click on the lane of its impression."""

    time: dt.datetime
    kind: Literal["in", "outside", "late"]


@dataclass(frozen=True)
class Lane:
    """An impression.

    Attributes:
        name: in front of the lane.
        note: behind it.
        window: from when to when its clicks count; None: it hasn't come yet.
        is_out: whether it has come out.
        clicks: those that have come.
    """

    name: str
    note: str
    window: tuple[dt.datetime, dt.datetime] | None
    is_out: bool
    clicks: Sequence[Click]


def timeline(
    lanes: Sequence[Lane],
    hours: tuple[dt.datetime, dt.datetime],
    clock: dt.datetime,
    watermark: dt.datetime | None,
) -> str:
    """An SVG.

    Args:
        lanes: from top to bottom.
        hours: the first and the last time on the axis.
        clock: where the line of the clock is.
        watermark: where that of the watermark is; None: nowhere.
    """
    first, last = hours

    def x(time: dt.datetime) -> float:
        return round(_LEFT + (time - first) / dt.timedelta(minutes=1) * _MINUTE, 1)

    def parts() -> Iterator[str]:
        time = first
        while time <= last:
            yield _line(x(time), _TOP, bottom, 'stroke="currentColor" stroke-opacity="0.2"')
            yield _text(x(time), bottom + 14, f"{time:%H:%M}", "middle")
            time += dt.timedelta(minutes=5)
        for number, lane in enumerate(lanes):
            y = _TOP + _LANE * number + _LANE // 2
            yield _text(0, y + 4, lane.name)
            if lane.window:
                yield _bar(x(lane.window[0]), x(lane.window[1]), y, _OUT if lane.is_out else _WAITS)
            yield from (_dot(x(click.time), y, click.kind) for click in lane.clicks)
            yield _text(x(last) + 12, y + 4, lane.note)
        if watermark:
            yield _line(
                x(watermark), 4, bottom, f'stroke="{_WATERMARK}" stroke-width="2" stroke-dasharray="5 4"'
            )
            yield _text(x(watermark) - 6, 14, f"watermark {watermark:%H:%M}", "end")
        yield _line(x(clock), 4, bottom, 'stroke="currentColor" stroke-width="1.5"')
        yield _text(x(clock) + 6, 14, f"clock {clock:%H:%M}")
        yield from _legend(bottom + 40)

    bottom = _TOP + _LANE * len(lanes)
    size = f'width="{x(last) + _RIGHT:.0f}" height="{bottom + 50}"'
    box = f'viewBox="0 0 {x(last) + _RIGHT:.0f} {bottom + 50}"'
    style = 'style="max-width: 100%; height: auto" font-family="system-ui, sans-serif" font-size="12"'
    said = f'role="img" aria-label="Timeline at {clock:%H:%M}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} {box} {said} {style}>'
    return "\n".join([head, _ALONE, *parts(), "</svg>"])


def _line(x: float, top: float, bottom: float, style: str) -> str:
    return f'<line x1="{x}" x2="{x}" y1="{top}" y2="{bottom}" {style}/>'


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" fill="currentColor">{html.escape(text)}</text>'


def _bar(begin: float, end: float, y: float, color: str) -> str:
    place = f'x="{begin}" y="{y - _BAR / 2}" width="{round(end - begin, 1)}" height="{_BAR}" rx="3"'
    return f'<rect {place} fill="{color}" fill-opacity="0.3" stroke="{color}" stroke-width="1.5"/>'


def _dot(x: float, y: float, kind: str) -> str:
    match kind:
        case "in":
            return f'<circle cx="{x}" cy="{y}" r="4.5" fill="{_CLICK}"/>'
        case "outside":
            return f'<circle cx="{x}" cy="{y}" r="4" fill="none" stroke="{_CLICK}" stroke-width="2"/>'
        case _:
            cross = f"M {x - 4} {y - 4} l 8 8 m 0 -8 l -8 8"
            return f'<path d="{cross}" stroke="{_CLICK}" stroke-width="2.5"/>'


def _legend(y: float) -> Iterator[str]:
    bars = [("window of an impression that waits", _WAITS), ("that is out", _OUT)]
    dots = [("click", "in"), ("outside of the window", "outside"), ("late", "late")]
    at = 0.0
    for text, color in bars:
        yield _bar(at, at + 20, y, color)
        yield _text(at + 26, y + 4, text)
        at += 50 + 6.2 * len(text)
    for text, kind in dots:
        yield _dot(at + 6, y, kind)
        yield _text(at + 16, y + 4, text)
        at += 40 + 6.2 * len(text)


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in HTML with a title.

    Args:
        title: above it.
        columns: their names.
        rows: a text for each column.
    """

    def line(tag: str, cells: Sequence[str]) -> str:
        style = 'style="text-align: left; white-space: nowrap; padding: 2px 16px 2px 0"'
        return "<tr>" + "".join(f"<{tag} {style}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    lines = [line("th", columns), *(line("td", row) for row in rows)] if rows else []
    return f"<p><b>{html.escape(title)}</b></p>\n<table>\n" + "\n".join(lines) + "\n</table>"


# Each frame is there from the beginning, so that the slider needs no Python behind it: it works on a page of
# the site, too. Without scripts there is no slider, and the first frame is seen.
_SLIDER = """<div id="{name}">
<p hidden><label>{label} <input type="range" min="0" max="{last}" value="{at}" style="width: 60%"></label>
<output>{first}</output></p>
{frames}
<script>{{
const slider = document.getElementById("{name}");
const input = slider.querySelector("input");
const frames = [...slider.querySelectorAll("[data-frame]")];
slider.querySelector("p").hidden = false;
input.addEventListener("input", () => {{
  frames.forEach((frame, number) => {{ frame.hidden = number !== input.valueAsNumber; }});
  const now = frames[input.valueAsNumber].dataset.frame;
  slider.querySelector("output").textContent = now;
  input.setAttribute("aria-valuetext", now);
}});
}}</script>
</div>"""


def slider(name: str, label: str, frames: Mapping[str, str], first: str) -> str:
    """Pictures, of which a slider chooses the one that is seen.

    Args:
        name: the element's id.
        label: in front of the slider.
        frames: the pictures in HTML, by what the slider shows then.
        first: the one that is seen at first.
    """
    hidden = {text: "" if text == first else " hidden" for text in frames}
    shown = [f'<div data-frame="{text}"{hidden[text]}>{picture}</div>' for text, picture in frames.items()]
    numbers = {"last": len(frames) - 1, "at": list(frames).index(first)}
    return _SLIDER.format(name=name, label=label, first=first, frames="\n".join(shown), **numbers)
