"""The operators by brute force: joins step by step with Spark's watermark, and training examples at once.

Times are in seconds. A test feeds an oracle of steps with the rows of each micro-batch, and compares its
answer with the rows that the query has emitted by then.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from fractions import Fraction
    from typing import Any

    from streams import Row


@dataclass
class SparkWatermark:
    """Spark's watermark over two streams: the minimum of both sides' maximum times less the delay.

    It never goes back, and begins when both sides have had a row.
    """

    delay: int
    time: float = float("-inf")
    _greatest: dict[str, int] = field(default_factory=dict)

    def advance(self, left: Sequence[Row], right: Sequence[Row]) -> None:
        """Moves it by the rows of a micro-batch, late ones too."""
        for side, rows in (("left", left), ("right", right)):
            for row in rows:
                self._greatest[side] = max(self._greatest.get(side, row.second), row.second)
        if len(self._greatest) == 2:
            self.time = max(self.time, min(self._greatest.values()) - self.delay)

    def restart(self) -> None:
        """Spark keeps its watermark over a restart, but forgets how far each input was."""
        self._greatest.clear()


@dataclass
class JoinOracle:
    """The join of two streams.

    A row is late when its time is not after the watermark of the previous step. A late right row is accepted
    if by its time it may match a left row whose window is open. So is a late left row whose window is open,
    but not for pairs.
    """

    before: int
    after: int
    delay: int
    left: list[Row] = field(default_factory=list)
    right: list[Row] = field(default_factory=list)
    waiting: list[Row] = field(default_factory=list)
    late: list[tuple[str, Row]] = field(default_factory=list)
    spark: SparkWatermark = field(init=False)

    def __post_init__(self) -> None:
        self.spark = SparkWatermark(self.delay)

    @property
    def watermark(self) -> float:
        """Spark's, in seconds."""
        return self.spark.time

    def step(
        self, left: Sequence[Row], right: Sequence[Row]
    ) -> tuple[list[tuple[int, list[int]]], list[tuple[int, int]]]:
        """The groups and the pairs that this step emits."""
        grouped = [r for r in left if self._on_time("left", r) or r.second + self.after > self.watermark]
        new_left = [r for r in grouped if r.second > self.watermark]
        new_right = [r for r in right if r.key is not None and (self._useful(r) or self._on_time("right", r))]
        pairs = [(le.id, r.id) for le in new_left for r in [*self.right, *new_right] if self._match(le, r)]
        waiting = [le for le in self.left if le.second + self.after > self.watermark]
        pairs += [(le.id, r.id) for le in waiting for r in new_right if self._match(le, r)]
        self.left += new_left
        self.right += new_right
        self.waiting += grouped
        self.spark.advance(left, right)
        closed = [r for r in self.waiting if r.second + self.after <= self.watermark]
        self.waiting = [r for r in self.waiting if r.second + self.after > self.watermark]
        return sorted((le.id, self._group(le)) for le in closed), sorted(pairs)

    def _useful(self, right: Row) -> bool:
        return right.second + self.before > self.watermark - self.after

    def _on_time(self, side: str, row: Row) -> bool:
        if row.second > self.watermark:
            return True
        self.late.append((side, row))
        return False

    def _match(self, left: Row, right: Row) -> bool:
        return (
            left.key is not None
            and left.key == right.key
            and left.second - self.before <= right.second <= left.second + self.after
        )

    def _group(self, left: Row) -> list[int]:
        found = [r for r in self.right if self._match(left, r)]
        return [r.id for r in sorted(found, key=lambda r: (r.second, r.id))]


def looked(rows: Iterable[dict[str, Any]]) -> list[tuple[int, int | None]]:
    """(left id, id of its right row), sorted by left id."""
    return sorted((r["l_id"], r["features"] and r["features"]["r_id"]) for r in rows)


@dataclass
class AsOfOracle:
    """The as-of join of two streams.

    Right rows of one key and time are in the order of their bytes, and a number has its lowest byte first.
    """

    delay: int
    max_age: int | None
    watermark_delay: int
    right: list[Row] = field(default_factory=list)
    waiting: list[Row] = field(default_factory=list)
    late: int = 0
    late_left: list[int] = field(default_factory=list)
    spark: SparkWatermark = field(init=False)

    def __post_init__(self) -> None:
        self.spark = SparkWatermark(self.watermark_delay)

    def step(self, left: Sequence[Row], right: Sequence[Row]) -> list[tuple[int, int | None]]:
        """The rows that this step emits: (left id, id of its right row)."""
        before = self.spark.time
        for side, rows, kept in (("left", left, self.waiting), ("right", right, self.right)):
            on_time = [r for r in rows if r.second > before]
            self.late += len(rows) - len(on_time)
            if side == "left":
                self.late_left += [r.id for r in rows if r.second <= before]
            kept.extend(on_time)
        # Left rows behind the watermark of this step are emitted in it already.
        self.spark.advance(left, right)
        complete = [r for r in self.waiting if r.second - self.delay <= self.spark.time]
        self.waiting = [r for r in self.waiting if r.second - self.delay > self.spark.time]
        return sorted((le.id, self._look(le)) for le in complete)

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


WHOLE = 10**9


class Impression(NamedTuple):
    id: int
    user: int | None
    item: int | None
    second: int


class Event(NamedTuple):
    id: int
    user: int | None
    item: int | None
    second: int


@dataclass(frozen=True)
class LabelOracle:
    """A label: its keys, window, policy and attribution.

    Attributes:
        on: names of the key columns.
        weights: of the touches of an event, in order, by their seconds from it; None: no attribution.
    """

    name: str
    on: tuple[str, ...]
    before: int
    after: int
    match: str = "all"
    max_matches: int | None = None
    weights: Callable[[list[int]], Sequence[Fraction]] | None = None

    def matches(self, left: Impression, event: Event) -> bool:
        keys = [(getattr(left, k), getattr(event, k)) for k in self.on]
        return (
            all(a is not None and a == b for a, b in keys)
            and left.second - self.before <= event.second <= left.second + self.after
        )

    def credits(self, event: Event, lefts: Sequence[Impression]) -> dict[int, int]:
        """The billionths of each impression, by its id. Impressions of a key have different times here."""
        touches = sorted((le for le in lefts if self.matches(le, event)), key=lambda le: le.second)
        if not touches or self.weights is None:
            return {le.id: WHOLE for le in touches}
        weights = self.weights([abs(event.second - le.second) for le in touches])
        total = sum(weights)
        shares = [int(w * WHOLE / total) for w in weights]
        shares[-1] = WHOLE - sum(shares[:-1])
        return {le.id: share for le, share in zip(touches, shares, strict=True) if share}

    def group(
        self, left: Impression, lefts: Sequence[Impression], events: Sequence[Event]
    ) -> tuple[list[tuple[int, int]], bool]:
        """The (event id, billionths) of an impression, and whether some were left out by `max_matches`."""
        found = sorted((e for e in events if self.matches(left, e)), key=lambda e: (e.second, e.id))
        credited = [(e, self.credits(e, lefts).get(left.id, 0)) for e in found]
        kept = [(e, share) for e, share in credited if share]
        if not kept:
            return [], False
        match self.match:
            case "first":
                kept = kept[:1]
            case "last":
                kept = kept[-1:]
            case "nearest":
                kept = [min(kept, key=lambda pair: (abs(pair[0].second - left.second), pair[0].second))]
            case _:
                pass
        most = self.max_matches or len(kept)
        return [(e.id, share) for e, share in kept[:most]], len(kept) > most
