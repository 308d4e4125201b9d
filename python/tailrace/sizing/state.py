"""The size of the state, and its bytes on disk and in the object store.

buffered rows = rate x (window + delay of the watermark + a micro-batch, by which Spark's watermark lags
                        + half of a release step)
on disk       = the same, plus evicted rows that are in files with rows that aren't evicted
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tailrace.sizing import constants

if TYPE_CHECKING:
    from tailrace.sizing.load import Load


@dataclass(frozen=True)
class State:
    """The state of a join.

    Attributes:
        left_rows: buffered.
        right_rows: buffered.
        matched_rows: buffered matches; with eager matching only.
        bytes: of all of them.
        partition_bytes: of one partition.
        local_bytes: the most on the local disks of all executors.
        checkpoint_bytes: in the object store.
        written_bytes: into the object store, a second.
        rewrites: how often compaction writes a row again.
        runs: sorted runs of a partition.
    """

    left_rows: float
    right_rows: float
    matched_rows: float
    bytes: float
    partition_bytes: float
    local_bytes: float
    checkpoint_bytes: float
    written_bytes: float
    rewrites: int
    runs: float

    @property
    def rows(self) -> float:
        """All buffered rows."""
        return self.left_rows + self.right_rows + self.matched_rows


def left_stored(load: Load) -> float:
    """Bytes of a left row in the state."""
    return _stored(load.left_bytes) + (constants.EAGER_LEFT.value if load.eager else 0.0)


def right_stored(load: Load) -> float:
    """Bytes of a right row in the state."""
    return _stored(load.right_bytes)


def _stored(size: float) -> float:
    return constants.ROW_OVERHEAD.value + size * constants.ROW_GROWTH.value


def state(load: Load, partitions: int) -> State:
    """The state of a join that has run for longer than its window.

    Args:
        load: what comes in.
        partitions: that it is in.
    """
    behind = load.delay + load.trigger + load.step / 2
    left_rows = load.left * (load.after + behind)
    # Found on arrival, a match is kept with its left row, and a right row is buffered for left rows only.
    right_rows = load.right * ((load.before if load.eager else load.window) + behind)
    matched_rows = load.left * load.matches * (load.after + behind) if load.eager else 0.0
    left, right = left_stored(load), right_stored(load)
    waiting = left_rows * left + (right_rows + matched_rows) * right
    rewrites, runs = _levels(load)
    # The rows of one second. A file goes when the last of its rows has gone, and spans its micro-batches.
    second = load.left * left + load.right * right + (load.left * load.matches * right if load.eager else 0)
    span = min(load.trigger * constants.FAN_IN.value**rewrites, max(load.window, load.trigger))
    local = waiting + second * span
    written = second * (1 + rewrites)
    return State(
        left_rows=left_rows,
        right_rows=right_rows,
        matched_rows=matched_rows,
        bytes=waiting,
        partition_bytes=waiting / partitions,
        local_bytes=local,
        checkpoint_bytes=local + written * load.trigger * constants.RETAINED.value,
        written_bytes=written,
        rewrites=rewrites,
        runs=runs,
    )


@dataclass(frozen=True)
class Release:
    """Left rows that leave a partition together, and are merged with the right rows of the window.

    Rows that leave together read each page once. A few rows seek a page in each run, many read all pages in
    order. Both cost CPU, and a page that is sought costs more.

    Attributes:
        rows: that leave together.
        pages: of right rows, for each of them.
        row_seconds: CPU of each of them for its pages.
    """

    rows: float
    pages: float
    row_seconds: float


def release(load: Load, partitions: int, runs: float) -> Release:
    """A release of one partition.

    Args:
        load: what comes in.
        partitions: of the state.
        runs: of a partition.
    """
    rows = load.left / partitions * max(load.step, load.trigger)
    if load.eager:
        return Release(rows, 0.0, 0.0)
    stay = load.window + load.step / 2
    pages = load.right / partitions * stay * right_stored(load) / constants.PAGE_BYTES.value
    share = -math.expm1(-constants.PROBES.value * runs * rows / pages)
    page = share * constants.PAGE_IN_ORDER.value + (1 - share) * constants.PAGE_SOUGHT.value
    each = pages * share / rows
    return Release(rows, each, each * page)


def _levels(load: Load) -> tuple[int, float]:
    """The number of times that a row is rewritten in its window, and the runs of a partition.

    They correspond to the digits of the number of micro-batches in a window: on each level but the last,
    half of the fan-in is still to be merged.
    """
    fan_in = constants.FAN_IN.value
    left, rewrites = max(1.0, load.window / load.trigger), 0
    while left >= fan_in:
        left, rewrites = left / fan_in, rewrites + 1
    return rewrites, left + rewrites * (fan_in - 1) / 2
