"""The join by brute force, with Spark's watermark: the rows of each step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streams import Row


@dataclass
class Oracle:
    """Fed with steps of (left rows, right rows); all times in seconds.

    A row is late when its time is not after the watermark of the step before. The watermark is the least of
    both sides' greatest times less the delay, never goes back, and begins when both sides have had a row.
    A late right row is taken if by its time it may match a left row whose window is open.
    """

    before: int
    after: int
    delay: int
    watermark: float = float("-inf")
    left: list[Row] = field(default_factory=list)
    right: list[Row] = field(default_factory=list)
    waiting: list[Row] = field(default_factory=list)
    late: list[tuple[str, Row]] = field(default_factory=list)
    _greatest: dict[str, int] = field(default_factory=dict)

    def step(
        self, left: Sequence[Row], right: Sequence[Row]
    ) -> tuple[list[tuple[int, list[int]]], list[tuple[int, int]]]:
        """The groups and the pairs that come out of this step."""
        new_left = [r for r in left if self._on_time("left", r)]
        new_right = [r for r in right if r.key is not None and (self._useful(r) or self._on_time("right", r))]
        pairs = [(le.id, r.id) for le in new_left for r in [*self.right, *new_right] if self._match(le, r)]
        waiting = [le for le in self.left if le.second + self.after > self.watermark]
        pairs += [(le.id, r.id) for le in waiting for r in new_right if self._match(le, r)]
        self.left += new_left
        self.right += new_right
        self.waiting += new_left
        self._advance("left", left)
        self._advance("right", right)
        if len(self._greatest) == 2:
            self.watermark = max(self.watermark, min(self._greatest.values()) - self.delay)
        closed = [r for r in self.waiting if r.second + self.after <= self.watermark]
        self.waiting = [r for r in self.waiting if r.second + self.after > self.watermark]
        return sorted((le.id, self._group(le)) for le in closed), sorted(pairs)

    def restart(self) -> None:
        """Spark keeps its watermark over a restart, but forgets how far each input was."""
        self._greatest.clear()

    def _useful(self, right: Row) -> bool:
        return right.second + self.before > self.watermark - self.after

    def _on_time(self, side: str, row: Row) -> bool:
        if row.second > self.watermark:
            return True
        self.late.append((side, row))
        return False

    def _advance(self, side: str, rows: Sequence[Row]) -> None:
        for row in rows:
            self._greatest[side] = max(self._greatest.get(side, row.second), row.second)

    def _match(self, left: Row, right: Row) -> bool:
        return (
            left.key is not None
            and left.key == right.key
            and left.second - self.before <= right.second <= left.second + self.after
        )

    def _group(self, left: Row) -> list[int]:
        found = [r for r in self.right if self._match(left, r)]
        return [r.id for r in sorted(found, key=lambda r: (r.second, r.id))]
