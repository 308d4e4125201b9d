"""The demo's chart: input, output and buffered rows over the micro-batches."""

# The types of matplotlib are incomplete.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import StrMethodFormatter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.demo.progress import Batch

_IN, _OUT, _STATE, _FILES = "#9db4c0", "#1b6b93", "#c8553d", "#7a6c5d"
_KILL = "#333333"


def draw(batches: Sequence[Batch], killed_after: int | None = None) -> bytes:
    """Draws the chart: rows in and groups out per batch above, buffered rows and their files in MB below.

    Args:
        batches: the micro-batches, in order.
        killed_after: the micro-batch after which the query was killed; None if it wasn't.

    Returns:
        A PNG of 1350 x 900 pixels.
    """
    # A figure of its own, not pyplot's: no display is needed and no global state is left.
    figure = Figure(figsize=(9, 6), layout="constrained")
    FigureCanvasAgg(figure)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[3, 2])
    numbers = [batch.number for batch in batches]
    above.bar([n - 0.2 for n in numbers], [b.rows_in for b in batches], 0.4, color=_IN, label="rows in")
    above.bar(
        [n + 0.2 for n in numbers], [b.groups_emitted for b in batches], 0.4, color=_OUT, label="groups out"
    )
    above.set_ylabel("rows per micro-batch")
    above.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    above.set_title("tailrace.join: a group is emitted once, when its window closes")
    below.plot(
        numbers, [b.state_bytes / 1e6 for b in batches], color=_STATE, marker="o", label="buffered rows"
    )
    below.plot(numbers, [b.file_bytes / 1e6 for b in batches], color=_FILES, marker="s", label="their files")
    below.set_ylabel("state (MB)")
    below.set_xlabel("micro-batch")
    below.set_ylim(bottom=0)
    for axes in (above, below):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", alpha=0.3)
        if killed_after is not None:
            label = "kill -9, and a new start" if axes is above else None
            axes.axvline(killed_after + 0.5, color=_KILL, linestyle="--", label=label)
    above.legend(framealpha=0.9, edgecolor="none")
    below.legend(frameon=False)
    png = io.BytesIO()
    figure.savefig(png, format="png", dpi=150)
    return png.getvalue()
