"""Two streams whose join's window grows at restarts, and which rows have to come out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streams import at

if TYPE_CHECKING:
    import random

    from pyspark.sql import DataFrame

    from tailrace.testing import StreamTest

DELAY = 30
BEFORE = 7
# The last rows, which let all others come out.
END = 1000


class Growing:
    """The streams, and the window that each left row is judged by: the longest one that it has waited for."""

    def __init__(self, stream_test: StreamTest, rng: random.Random) -> None:
        self.after = 20
        self._rng = rng
        self._sources = {
            side: stream_test.source(f"{side}_id long, key long, {side}_ts timestamp") for side in "lr"
        }
        self._rows: dict[str, list[tuple[int, int, int]]] = {"l": [], "r": []}
        self._windows: dict[int, int] = {}

    def frame(self, side: str) -> DataFrame:
        """A side, with its watermark."""
        return self._sources[side].frame.withWatermark(f"{side}_ts", f"{DELAY} seconds")

    def read(self, number: int) -> None:
        """A micro-batch's rows, none of them late, with times that overlap those of the next."""
        times = [10 * number + self._rng.randint(0, 25) for _ in range(12)] if number else [END]
        for side in "lr":
            first = len(self._rows[side])
            new = [(first + i, self._rng.randint(1, 3), second) for i, second in enumerate(times)]
            self._rows[side] += new
            self._sources[side].add(*((row, key, at(second)) for row, key, second in new))
        for row, _, _ in self._rows["l"]:
            self._windows.setdefault(row, self.after)

    def grow(self, seconds: int, behind: int = 0) -> None:
        """While the query is stopped. All batches have run, those without rows, too.

        The join's watermark is so many seconds behind that of the streams.
        """
        watermark = min(max(second for _, _, second in self._rows[side]) for side in "lr") - DELAY - behind
        for row, _, second in self._rows["l"]:
            if second + self._windows[row] > watermark:
                self._windows[row] = self.after + seconds
        self.after += seconds

    @property
    def lefts(self) -> list[int]:
        """Those that come out with their groups."""
        return [row for row, _, second in self._rows["l"] if second < END]

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """All matches."""
        return sorted(
            (left, right)
            for left, key, first in self._rows["l"]
            for right, other, second in self._rows["r"]
            if key == other and first - BEFORE <= second <= first + self._windows[left]
        )

    @property
    def windows(self) -> set[int]:
        """All that a row was judged by."""
        return set(self._windows.values())
