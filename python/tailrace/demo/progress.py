"""The numbers of a micro-batch that the demo shows, read from Spark's progress."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

HEADER = "batch   rows in   rows/s groups out state rows  state MB  files MB  seconds  watermark"
# Spark's value before there is one.
_NO_WATERMARK = "1970-01-01T00:00:00.000Z"


@dataclass(frozen=True)
class MicroBatch:
    """The report of either engine's join about a micro-batch.

    Attributes:
        number: batch id, from 0.
        rows_in: rows read from both streams.
        seconds: duration of the whole batch.
    """

    number: int
    rows_in: int
    seconds: float

    @property
    def rate(self) -> float:
        """Rows read a second, over the whole batch; 0 for one that was too short to measure."""
        return self.rows_in / self.seconds if self.seconds else 0.0

    def line(self) -> str:
        """The batch as a line under `HEADER`."""
        return f"{self.number:>5} {self.rows_in:>9,} {self.rate:>8,.0f} {'':41} {self.seconds:>8.2f}"


@dataclass(frozen=True)
class Batch(MicroBatch):
    """One micro-batch of Tailrace's join.

    Attributes:
        groups_emitted: left rows emitted with their labels.
        groups_matched: those of them with at least one label.
        labels_emitted: labels in all of them.
        late_rows: late rows of both sides.
        state_rows: buffered rows in the state after the batch.
        state_bytes: size of these rows and their keys, before compression.
        file_bytes: size of the files that hold them in the checkpoint.
        memory_bytes: the peak size of the batch's rows, in all its tasks together.
        watermark: event-time watermark that the batch ran with, ISO 8601 in UTC; empty before there is one.
    """

    groups_emitted: int
    groups_matched: int
    labels_emitted: int
    late_rows: int
    state_rows: int
    state_bytes: int
    file_bytes: int
    memory_bytes: int
    watermark: str

    def line(self) -> str:
        """The batch as a line under `HEADER`."""
        return (
            f"{self.number:>5} {self.rows_in:>9,} {self.rate:>8,.0f} {self.groups_emitted:>10,} "
            f"{self.state_rows:>10,} {self.state_bytes / 1e6:>9.2f} {self.file_bytes / 1e6:>9.2f} "
            f"{self.seconds:>8.2f}  {self.watermark}"
        )


def read_micro_batch(progress: Mapping[str, Any]) -> MicroBatch:
    """Reads one of `StreamingQuery.recentProgress`, of any query."""
    seconds = progress["durationMs"].get("triggerExecution", 0) / 1000
    return MicroBatch(progress["batchId"], progress["numInputRows"], seconds)


def read_batch(progress: Mapping[str, Any]) -> Batch:
    """Reads one of `StreamingQuery.recentProgress`.

    Args:
        progress: progress of a query whose only stateful operator is one `tailrace.join`.

    Raises:
        LookupError: it doesn't have exactly one state operator, or that isn't Tailrace's.
    """
    operators = progress["stateOperators"]
    if len(operators) != 1:
        raise LookupError(f"Batch {progress['batchId']} reports {len(operators)} state operators, not one.")
    operator = operators[0]
    metrics = operator["customMetrics"]
    stores = sum(metrics[f"{store}StoreBytes"] for store in ("left", "right", "joined"))
    return Batch(
        **asdict(read_micro_batch(progress)),
        groups_emitted=metrics["groupsEmitted"],
        groups_matched=metrics["groupsMatched"],
        labels_emitted=metrics["labelsEmitted"],
        late_rows=metrics["lateLeftRows"] + metrics["lateRightRows"],
        state_rows=operator["numRowsTotal"],
        state_bytes=stores,
        file_bytes=metrics["stateFileBytes"],
        memory_bytes=operator["memoryUsedBytes"],
        watermark=progress["eventTime"].get("watermark", "").removeprefix(_NO_WATERMARK),
    )
