"""Spark's own join over the demo's streams, in numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


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

    def line(self, fastest: float) -> str:
        """The run as a sentence.

        Args:
            fastest: rows a second of Tailrace's fastest micro-batch.
        """
        return (
            f"{max(batch.rate for batch in self.batches):,.0f} rows/s in its fastest batch, Tailrace "
            f"{fastest:,.0f}. {self.rows_out:,} rows came out, one for each label or for none: to make "
            "examples of them takes another operator with state"
        )
