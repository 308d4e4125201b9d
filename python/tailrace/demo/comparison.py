"""Spark's own join over the demo's streams, in numbers."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# A row of each side closes the streams.
_CLOSING_ROWS = 2


@dataclass(frozen=True)
class SparksBatch:
    """One micro-batch: its number from 0, rows read from both streams, and its duration in seconds."""

    number: int
    rows_in: int
    seconds: float

    @property
    def rate(self) -> float:
        """Rows read a second."""
        return self.rows_in / self.seconds if self.seconds else 0.0

    def line(self) -> str:
        """The batch as a line under `progress.HEADER`."""
        return f"{self.number:>5} {self.rows_in:>9,} {self.rate:>8,.0f} {'':41} {self.seconds:>8.2f}"


def read_batch(progress: Mapping[str, Any]) -> SparksBatch:
    """Reads one of `StreamingQuery.recentProgress`."""
    seconds = progress["durationMs"].get("triggerExecution", 0) / 1000
    return SparksBatch(progress["batchId"], progress["numInputRows"], seconds)


@dataclass(frozen=True)
class SparksJoin:
    """A whole run of Spark's join: its micro-batches, and the rows of its result."""

    batches: Sequence[SparksBatch]
    rows_out: int

    def line(self, tailraces: float) -> str:
        """The run as a sentence.

        Args:
            tailraces: rows a second of Tailrace's median batch.
        """
        return (
            f"{median_rate(self.batches):,.0f} rows/s in its median batch, Tailrace {tailraces:,.0f}. "
            f"{self.rows_out:,} rows came out, a row for each label, and one for an impression without: to "
            "make examples of them takes another operator with state"
        )


class HasRate(Protocol):
    """A micro-batch of either engine."""

    @property
    def rows_in(self) -> int:
        """Rows read."""
        ...

    @property
    def rate(self) -> float:
        """Rows read a second."""
        ...


def median_rate(batches: Sequence[HasRate]) -> float:
    """Rows a second of the median batch, of those that have read more than the closing rows."""
    rates = [batch.rate for batch in batches if batch.rows_in > _CLOSING_ROWS]
    return median(rates) if rates else 0.0
