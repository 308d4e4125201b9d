"""Training examples by brute force: each impression's events, by label, and their credits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from fractions import Fraction

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
