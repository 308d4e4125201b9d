"""The as-of join by brute force, with Spark's watermark: the rows of each step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from streams import Row


def looked(rows: Iterable[dict[str, Any]]) -> list[tuple[int, int | None]]:
    """(left id, id of its right row), sorted by left id."""
    return sorted((r["l_id"], r["features"] and r["features"]["r_id"]) for r in rows)


@dataclass
class AsOfOracle:
    """Fed with steps of (left rows, right rows); all times in seconds. See `join_oracle.Oracle`.

    Right rows of one key and time are in the order of their bytes, and a number has its lowest byte first.
    """

    delay: int
    max_age: int | None
    watermark_delay: int
    watermark: float = float("-inf")
    right: list[Row] = field(default_factory=list)
    waiting: list[Row] = field(default_factory=list)
    late: int = 0
    late_left: list[int] = field(default_factory=list)
    _greatest: dict[str, int] = field(default_factory=dict)

    def step(self, left: Sequence[Row], right: Sequence[Row]) -> list[tuple[int, int | None]]:
        """The rows that come out of this step: (left id, id of its right row)."""
        for side, rows, kept in (("left", left, self.waiting), ("right", right, self.right)):
            on_time = [r for r in rows if r.second > self.watermark]
            self.late += len(rows) - len(on_time)
            if side == "left":
                self.late_left += [r.id for r in rows if r.second <= self.watermark]
            kept.extend(on_time)
            if rows:
                seen = self._greatest.get(side, rows[0].second)
                self._greatest[side] = max(seen, *(r.second for r in rows))
        # Left rows behind the watermark of this step come out in it already.
        if len(self._greatest) == 2:
            self.watermark = max(self.watermark, min(self._greatest.values()) - self.watermark_delay)
        complete = [r for r in self.waiting if r.second - self.delay <= self.watermark]
        self.waiting = [r for r in self.waiting if r.second - self.delay > self.watermark]
        return sorted((le.id, self._look(le)) for le in complete)

    def restart(self) -> None:
        """Spark keeps its watermark over a restart, but forgets how far each input was."""
        self._greatest.clear()

    def _look(self, left: Row) -> int | None:
        point = left.second - self.delay
        found = [
            (r.second, r.id.to_bytes(8, "little"), r.id)
            for r in self.right
            if left.key is not None
            and r.key == left.key
            and r.second <= point
            and (self.max_age is None or r.second >= point - self.max_age)
        ]
        return max(found)[2] if found else None
