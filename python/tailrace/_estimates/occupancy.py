"""The state of a label join of streams, and the times when it emits: a simulation in numbers, without rows.

Rows come in cells: those of one micro-batch and of nearly one time. The watermark of a micro-batch is that of
the rows before it, and rows are late by the watermark of the micro-batch before.

    tick          5        6        7        8         a trigger each
    newest    12:04    12:05    12:06    12:07         event time of both streams
    watermark 12:03    12:04    12:05    12:06   less the delay
    late by   12:02    12:03    12:04    12:05   less the delay
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

# Partitions release their rows at different times. So many stand for all of them.
_PHASES = 4
_MILLI = 1000  # microseconds: Spark's watermarks are in milliseconds


@dataclass(frozen=True)
class Cell:
    """Rows of one side.

    Attributes:
        tick: the micro-batch that they come in.
        latest: of their event times, in microseconds.
        rows: how many.
    """

    tick: int
    latest: int
    rows: int


@dataclass(frozen=True)
class Clock:
    """The progress of event time in both streams.

    Attributes:
        ticks: micro-batches with rows, in order.
        seen: after each of them, the minimum of both streams' newest times, in microseconds; None before both
            have had a row.
    """

    ticks: Sequence[int]
    seen: Sequence[int | None]

    @staticmethod
    def of(left: Iterable[Cell], right: Iterable[Cell]) -> Clock:
        """The clock of the rows of both sides."""
        sides = [_newest(left), _newest(right)]
        ticks = sorted({*sides[0], *sides[1]})
        reached: list[int | None] = [None, None]
        seen: list[int | None] = []
        for tick in ticks:
            for side, newest in enumerate(sides):
                if tick in newest:
                    reached[side] = max(newest[tick], reached[side] or newest[tick])
            both = [time for time in reached if time is not None]
            seen.append(min(both) // _MILLI * _MILLI if len(both) == len(sides) else None)
        return Clock(ticks, seen)

    @property
    def end(self) -> int:
        """The progress at the end of all rows. Both streams must have rows."""
        end = self.seen[-1]
        if end is None:
            raise ValueError("a stream has no rows")
        return end

    def before(self, tick: int) -> int | None:
        """The progress when a micro-batch began; None before both have had a row."""
        past = bisect_left(self.ticks, tick)
        return self.seen[past - 1] if past else None


@dataclass(frozen=True)
class Shape:
    """A join, in microseconds.

    Attributes:
        before: of its window.
        after: of its window.
        delay: of the watermarks.
        step: of the release; 0 for none.
        trigger: from a micro-batch to the next.
        bucket: the time that a section of a run spans.
        fan_in: how many runs a compaction merges.
    """

    before: int
    after: int
    delay: int
    step: int
    trigger: int
    bucket: int
    fan_in: int

    @property
    def run(self) -> int:
        """The number of micro-batches whose rows are in one run, once it has been compacted."""
        left, batches = (self.before + self.after + self.delay) / self.trigger, 1
        while left >= self.fan_in:
            left, batches = left / self.fan_in, batches * self.fan_in
        return batches


@dataclass(frozen=True)
class Bytes:
    """Bytes of a row in the state.

    Attributes:
        stored: before compression.
        file: in a run.
    """

    stored: float
    file: float


@dataclass(frozen=True)
class Held:
    """The most that the state holds after a micro-batch.

    Attributes:
        rows: that wait.
        bytes: before compression, of the sections that they are in.
        file_bytes: of the runs that they are in.
        latencies: (seconds, weight) from the event time of a left row until it is emitted, in order.
    """

    rows: float
    bytes: float
    file_bytes: float
    latencies: Sequence[tuple[float, float]]

    def latency(self, share: float) -> float | None:
        """Seconds after which this share of the left rows has been emitted; None if none has."""
        sums = list(accumulate(weight for _, weight in self.latencies))
        if not sums:
            return None
        return self.latencies[min(bisect_left(sums, share * sums[-1]), len(sums) - 1)][0]


def held(clock: Clock, cells: Mapping[str, Sequence[Cell]], sizes: Mapping[str, Bytes], shape: Shape) -> Held:
    """Runs a join over cells.

    Args:
        clock: of all cells.
        cells: of the sides "left" and "right".
        sizes: of the rows of both.
        shape: of the join.
    """
    # A trigger without rows runs a micro-batch, too, if the watermark has moved.
    batches = sorted({*clock.ticks, *(tick + 1 for tick in clock.ticks)})
    place = {tick: i for i, tick in enumerate(batches)}
    late = {tick: _less(clock.before(tick - 1), shape.delay) for tick in clock.ticks}
    # Late left rows are taken while their windows are open, late right rows while a left row may wait.
    grace = {"left": shape.after, "right": shape.before + shape.after}
    kept = {
        side: [cell for cell in of if cell.latest > late[cell.tick] - grace[side]]
        for side, of in cells.items()
    }
    ends = _ends(kept, shape)
    rows, stored, files = ([0.0] * (len(batches) + 1) for _ in range(3))
    latencies: defaultdict[float, float] = defaultdict(float)
    for phase in range(_PHASES):
        released = _released(clock, batches, shape, shape.step * phase // _PHASES)
        for side, of in kept.items():
            # Right rows go when no left row that waits can match them, and a whole section at a time.
            margin = shape.before if side == "right" else 0
            for cell in of:
                begin, weight = place[cell.tick], cell.rows / _PHASES
                section, run = ends[side, cell]

                gone = max(begin, bisect_left(released, section + margin))
                out = gone if side == "right" else max(begin, bisect_left(released, cell.latest))
                rid = max(begin, bisect_left(released, run))
                for leaves, total, amount in (
                    (out, rows, weight),
                    (gone, stored, weight * sizes[side].stored),
                    (rid, files, weight * sizes[side].file),
                ):
                    total[begin] += amount
                    total[leaves] -= amount
                if side == "left" and out < len(batches):
                    seconds = ((batches[out] + 1) * shape.trigger - cell.latest) / 1e6
                    latencies[seconds] += weight
    most_rows, most_stored, most_files = (max(accumulate(total)) for total in (rows, stored, files))
    return Held(most_rows, most_stored, most_files, sorted(latencies.items()))


def _ends(kept: Mapping[str, Sequence[Cell]], shape: Shape) -> dict[tuple[str, Cell], tuple[int, int]]:
    """For each cell, the last time in its section, and the time until which left rows need its run."""
    sections: dict[tuple[str, int, int], int] = {}
    runs: dict[int, int] = {}

    def section(side: str, cell: Cell) -> tuple[str, int, int]:
        return side, cell.tick // shape.run, cell.latest // shape.bucket

    for side, of in kept.items():
        for cell in of:
            key, run = section(side, cell), cell.tick // shape.run
            sections[key] = max(cell.latest, sections.get(key, cell.latest))
            needed = cell.latest + (shape.before if side == "right" else 0)
            runs[run] = max(needed, runs.get(run, needed))
    return {
        (side, cell): (sections[section(side, cell)], runs[cell.tick // shape.run])
        for side, of in kept.items()
        for cell in of
    }


def _released(clock: Clock, batches: Sequence[int], shape: Shape, phase: int) -> list[float]:
    """Left rows up to this time have been emitted after each micro-batch, of a partition with this phase."""
    released = float("-inf")
    found: list[float] = []
    for tick in batches:
        expiry = _less(clock.before(tick), shape.delay + shape.after)
        step = shape.step
        is_due = (
            step == 0 or released == float("-inf") or (expiry - phase) // step > (released - phase) // step
        )
        if is_due:
            released = max(released, expiry)
        found.append(released)
    return found


def _newest(cells: Iterable[Cell]) -> dict[int, int]:
    newest: dict[int, int] = {}
    for cell in cells:
        newest[cell.tick] = max(cell.latest, newest.get(cell.tick, cell.latest))
    return newest


def _less(time: int | None, by: int) -> float:
    return float("-inf") if time is None else time - by
