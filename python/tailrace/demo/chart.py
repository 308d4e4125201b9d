"""The demo's chart: input, output and buffered rows over the micro-batches."""

# The types of matplotlib are incomplete.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.demo.progress import Batch

_IN, _OUT, _STATE, _FILES = "#9db4c0", "#1b6b93", "#c8553d", "#7a6c5d"


def draw(batches: Sequence[Batch]) -> bytes:
    """Draws the chart: rows in and groups out per batch above, buffered rows and their files in MB below.

    Args:
        batches: the micro-batches, in order.

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
    above.set_ylabel("rows a micro-batch")
    above.set_title("tailrace.join: a group is emitted once, when its window closes")
    above.legend(frameon=False)
    below.plot(numbers, [b.state_bytes / 1e6 for b in batches], color=_STATE, marker="o", label="rows")
    below.plot(numbers, [b.file_bytes / 1e6 for b in batches], color=_FILES, marker="s", label="files")
    below.legend(frameon=False)
    below.set_ylabel("state (MB)")
    below.set_xlabel("micro-batch")
    below.set_ylim(bottom=0)
    for axes in (above, below):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", alpha=0.3)
    png = io.BytesIO()
    figure.savefig(png, format="png", dpi=150)
    return png.getvalue()
