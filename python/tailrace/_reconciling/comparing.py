"""The passes over the rows: counts first, and the reasons only if something differs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it

from tailrace._reconciling.counts import WindowCounts, count_reasons, window_counts
from tailrace._reconciling.outcomes import outcomes
from tailrace._reconciling.reasons import with_reasons

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from tailrace._reconciling.landed import Range, Reported
    from tailrace._reconciling.outcomes import Sides


@dataclass(frozen=True)
class Compared:
    """The result of a comparison.

    Attributes:
        windows: the counts, in order of time.
        differences: the keys that differ, in compared windows, with their reasons.
    """

    windows: Sequence[WindowCounts]
    differences: DataFrame


def compare(sides: Sides, compared: Range, known: Sequence[Reported]) -> Compared:
    """Compares the rows of both sides.

    One pass counts. A second one follows if a key is repeated in a compared window, because its rows are
    compared by their content; another one if there is a difference, for the reasons.

    Args:
        sides: the rows.
        compared: the range of the windows to compare.
        known: the reports of the windows.
    """
    subject, (length, _) = sides.subject, sides.window
    windows = window_counts(outcomes(sides), subject)
    repeated = any(one.repeated for one in windows if compared.status(one.start, length) == "compared")
    if repeated:
        windows = window_counts(outcomes(sides, by_content=True), subject)
    windows = _with_empty(windows, [one.start for one in known if one.length == length], subject.labels)
    for one in windows:
        one.status = compared.status(one.start, length)
    found = outcomes(sides, with_aside=True, by_content=repeated)
    differences = with_reasons(found.where(compared.has(F.col("start"), length)), sides)
    if any(one.differences for one in windows if one.status == "compared"):
        count_reasons(differences, {one.start: one for one in windows}, subject)
    return Compared(windows, differences)


def _with_empty(
    windows: Sequence[WindowCounts], closed: Sequence[int], labels: Sequence[str]
) -> list[WindowCounts]:
    """Adds the windows that have closed without rows of either side."""
    there = {one.start for one in windows}
    empty = [WindowCounts.empty(start, labels) for start in closed if start not in there]
    return sorted([*windows, *empty], key=lambda one: (one.start is not None, one.start or 0))
