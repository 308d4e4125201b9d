"""The micro-batches of a preflight, against a run that goes through them row by row."""

from __future__ import annotations

import math
import random

import pytest

from tailrace._estimates.occupancy import Bytes, Cell, Clock, Held, Shape, held

SECOND = 1_000_000
SIZES = {"left": Bytes(100.0, 30.0), "right": Bytes(10.0, 3.0)}


def shape(**changed: int) -> Shape:
    """Durations in seconds, but for the last two."""
    given = {"before": 0, "after": 120, "delay": 30, "step": 0, "trigger": 60, "bucket": 30, "fan_in": 32}
    return Shape(**{k: v if k == "fan_in" else v * SECOND for k, v in (given | changed).items()})


def rows_of(seed: int) -> dict[str, list[Cell]]:
    """Cells of one to three rows, some of them late, and some ticks without any."""
    rng = random.Random(seed)
    ticks = [tick for tick in range(18) if rng.random() < 0.8]
    return {
        side: [
            Cell(
                tick,
                int((tick * 60 + rng.uniform(0, 60) - rng.choice([0, 0, 0, 200])) * SECOND),
                rng.randint(1, 3),
            )
            for tick in ticks
            for _ in range(rng.randint(0, 4))
        ]
        for side in ("left", "right")
    }


class Run:
    """Micro-batch by micro-batch, in a partition whose steps begin at a phase."""

    def __init__(self, rows: dict[str, list[Cell]], of: Shape, phase: int) -> None:
        self.rows, self.of, self.phase = rows, of, phase
        self.state: list[tuple[str, Cell]] = []
        self.runs: dict[int, list[tuple[str, Cell]]] = {}
        self.released = -math.inf
        self.totals: list[tuple[float, float, float]] = []
        self.latencies: list[tuple[float, int]] = []
        ticks = {cell.tick for side in rows.values() for cell in side}
        for tick in sorted(ticks | {tick + 1 for tick in ticks}):
            self.step(tick)

    def watermark(self, tick: int) -> float:
        newest = (max((c.latest for c in side if c.tick < tick), default=None) for side in self.rows.values())
        both = [time for time in newest if time is not None]
        return min(both) // 1000 * 1000 - self.of.delay if len(both) == 2 else -math.inf

    def grace(self, side: str) -> int:
        """How far behind the watermark a row is taken: as long as a window that it is in is open."""
        return self.of.after + (self.of.before if side == "right" else 0)

    def step(self, tick: int) -> None:
        late = self.watermark(tick - 1)
        for side, cells in self.rows.items():
            self.state += [(side, c) for c in cells if c.tick == tick and c.latest > late - self.grace(side)]
        expiry, every = self.watermark(tick) - self.of.after, self.of.step
        first = every == 0 or self.released == -math.inf
        before = self.released
        if first or (expiry - self.phase) // every > (self.released - self.phase) // every:
            self.released = max(self.released, expiry)
        for side, cell in self.state:
            if side == "left" and before < cell.latest <= self.released:
                self.latencies.append((((tick + 1) * self.of.trigger - cell.latest) / SECOND, cell.rows))
        self.totals.append(self.total())

    def total(self) -> tuple[float, float, float]:
        rows = stored = files = 0.0
        for side, cell in self.state:
            section = [c for s, c in self.all_of(cell) if s == side and self.bucket(c) == self.bucket(cell)]
            is_section = any(self.needs(side, c) for c in section)
            is_out = not self.needs(side, cell) if side == "left" else not is_section
            rows += 0 if is_out else cell.rows
            stored += cell.rows * SIZES[side].stored if is_section else 0
            is_run = any(self.needs(s, c) for s, c in self.all_of(cell))
            files += cell.rows * SIZES[side].file if is_run else 0
        return rows, stored, files

    def all_of(self, cell: Cell) -> list[tuple[str, Cell]]:
        """The rows that come into a cell's run: its first micro-batch and those that are merged with it."""
        run = cell.tick // self.of.run
        if run not in self.runs:
            self.runs[run] = [
                (s, c)
                for s, cells in self.rows.items()
                for c in cells
                if c.tick // self.of.run == run and c.latest > self.watermark(c.tick - 1) - self.grace(s)
            ]
        return self.runs[run]

    def bucket(self, cell: Cell) -> int:
        return cell.latest // self.of.bucket

    def needs(self, side: str, cell: Cell) -> bool:
        return cell.latest + (self.of.before if side == "right" else 0) > self.released


def expected(rows: dict[str, list[Cell]], of: Shape) -> Held:
    """The most at a time, where a quarter of the partitions has each phase."""
    runs = [Run(rows, of, of.step * phase // 4) for phase in range(4)]
    totals = [
        [sum(run.totals[i][n] for run in runs) / 4 for i in range(len(runs[0].totals))] for n in range(3)
    ]
    latencies: dict[float, float] = {}
    for run in runs:
        for seconds, count in run.latencies:
            latencies[seconds] = latencies.get(seconds, 0) + count / 4
    rows_held, stored, files = map(max, totals)
    return Held(rows_held, stored, files, sorted(latencies.items()))


@pytest.mark.parametrize(
    "of",
    [
        shape(),
        shape(before=200, after=90),
        shape(step=150),
        shape(delay=0, after=0, bucket=7),
        # Two runs become one, and a section of theirs is as long as a bucket.
        shape(fan_in=2, after=300, bucket=120),
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_the_most_that_is_held_is_that_of_a_run_row_by_row(of: Shape, seed: int) -> None:
    rows = rows_of(seed)
    found = held(Clock.of(rows["left"], rows["right"]), rows, SIZES, of)
    oracle = expected(rows, of)
    assert found.rows == pytest.approx(oracle.rows)
    assert found.bytes == pytest.approx(oracle.bytes)
    assert found.file_bytes == pytest.approx(oracle.file_bytes)
    assert [s for s, _ in found.latencies] == pytest.approx([s for s, _ in oracle.latencies])
    assert [n for _, n in found.latencies] == pytest.approx([n for _, n in oracle.latencies])


def test_a_quantile_of_the_latency_is_a_weighted_one() -> None:
    told = Held(0, 0, 0, [(1.0, 1.0), (2.0, 8.0), (9.0, 1.0)])
    assert [told.latency(share) for share in (0.0, 0.1, 0.5, 0.9, 0.91, 1.0)] == [
        1.0,
        1.0,
        2.0,
        2.0,
        9.0,
        9.0,
    ]
    assert Held(0, 0, 0, []).latency(0.5) is None
