"""Spark's own join over the demo's streams, in numbers."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.demo.progress import MicroBatch

# A row of each side closes the streams.
_CLOSING_ROWS = 2


@dataclass(frozen=True)
class SparksJoin:
    """A whole run of Spark's join: its micro-batches, and the rows of its result."""

    batches: Sequence[MicroBatch]
    rows_out: int

    def line(self, tailraces: float) -> str:
        """The run as a sentence.

        Args:
            tailraces: rows a second of Tailrace's median batch.
        """
        return (
            f"{median_rate(self.batches):,.0f} rows/s in its median batch, Tailrace {tailraces:,.0f}. "
            f"{self.rows_out:,} rows were emitted, one per label, and one for an impression without: to "
            "make examples of them takes another operator with state"
        )


def median_rate(batches: Sequence[MicroBatch]) -> float:
    """Rows a second of the median batch, of those that have read more than the closing rows."""
    rates = [batch.rate for batch in batches if batch.rows_in > _CLOSING_ROWS]
    return median(rates) if rates else 0.0
