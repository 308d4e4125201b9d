"""What the joined streams of the Criteo layout and the file's own columns have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from criteo_layout import WINDOW_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from criteo_layout import Told
    from criteo_query import Credits, Joined

    Bools = npt.NDArray[np.bool_]
    Longs = npt.NDArray[np.int64]

WHOLE = 10**9
UNEXPLAINED = "not explained"


@dataclass(frozen=True)
class Agreement:
    """One column compared.

    Attributes:
        name: what is compared.
        compared: how many lines of the file.
        equal: how many of them are the same.
        differing: for those that aren't, why, and how many of them.
    """

    name: str
    compared: int
    equal: int
    differing: tuple[tuple[str, int], ...] = ()

    def lines(self) -> list[str]:
        """The counts, and behind them a line for each reason."""
        reasons = [f"{count:,} differ: {reason}" for reason, count in self.differing]
        return [f"{self.equal:,} of {self.compared:,} agree", *reasons]


@dataclass(frozen=True)
class Verdict:
    """The comparison of a whole file.

    Attributes:
        agreements: the columns compared.
        missing: impressions and clicks that haven't been emitted.
        twice: those that came out more than once.
        whole: whether the shares of each conversion sum to exactly 1 by `linear()`.
    """

    agreements: tuple[Agreement, ...]
    missing: int
    twice: int
    whole: bool

    @property
    def right(self) -> bool:
        """Whether each row came out once, and shares are whole. What differs is the file's own view."""
        return not self.missing and not self.twice and self.whole


def compare(told: Told, joined: Joined) -> Verdict:
    """Compares what has been emitted with the file."""
    examples = joined.examples
    times = np.bincount(examples.impression, minlength=len(told))
    clicks = np.bincount(joined.clicks, minlength=len(told))
    expected = told["click"] == 1
    clicked = np.zeros(len(told), bool)
    clicked[examples.impression] = examples.clicked
    conversion = np.full(len(told), -1, np.int64)
    conversion[examples.impression] = examples.conversion
    shares = np.zeros(0, np.int64)
    if len(joined.linear.conversion):
        _, inverse = np.unique(joined.linear.conversion, return_inverse=True)
        shares = np.bincount(inverse, joined.linear.billionths)
    agreements = (
        _agreement("click", clicked == expected, ()),
        _converted(told, conversion),
        _which(told, conversion),
        *_touches(told, joined),
    )
    return Verdict(
        agreements,
        missing=int((times == 0).sum() + (expected & (clicks == 0)).sum()),
        twice=int((times > 1).sum() + (clicks > 1).sum()),
        whole=bool((shares == WHOLE).all()),
    )


def _agreement(name: str, equal: Bools, reasons: Sequence[tuple[str, Bools]]) -> Agreement:
    """Each difference counts for the first reason that it has."""
    left = ~equal
    differing: list[tuple[str, int]] = []
    for reason, applies in (*reasons, (UNEXPLAINED, np.ones_like(left))):
        count = int((left & applies).sum())
        if count:
            differing.append((reason, count))
        left = left & ~applies
    return Agreement(name, len(equal), int(equal.sum()), tuple(differing))


def _outside(told: Told) -> tuple[tuple[str, Bools], ...]:
    """Why the conversion of a line can't be its label."""
    late = told["conversion_timestamp"] - told["timestamp"]
    return (
        ("the conversion has no id", told["conversion_id"] < 0),
        ("the conversion was before the impression", late < 0),
        ("the conversion was more than 30 days later", late > WINDOW_S),
        ("lines of the conversion name another user, campaign or time", _disagreeing(told)),
    )


def _disagreeing(told: Told) -> Bools:
    rows = np.flatnonzero(told.in_stream)
    _, first, inverse = np.unique(told["conversion_id"][rows], return_index=True, return_inverse=True)
    found = np.zeros(len(told), bool)
    for name in ("uid", "campaign", "conversion_timestamp"):
        values = told[name][rows]
        found[rows] |= values != values[first][inverse]
    return found


def _converted(told: Told, conversion: Longs) -> Agreement:
    ours, theirs = conversion >= 0, told["conversion"] == 1
    other = "the file has none here, but by another line the user converted within 30 days"
    only_theirs = tuple((reason, theirs & applies) for reason, applies in _outside(told))
    return _agreement("conversion", ours == theirs, (*only_theirs, (other, ours & ~theirs)))


def _which(told: Told, conversion: Longs) -> Agreement:
    both = (conversion >= 0) & (told["conversion"] == 1)
    when = _times_of(told, conversion)
    earlier = "the file has a later one than the first"
    reasons = (*_outside(told), (earlier, (when >= 0) & (when <= told["conversion_timestamp"])))
    equal = conversion == told["conversion_id"]
    return _agreement("conversion_id", equal[both], [(reason, at[both]) for reason, at in reasons])


def _times_of(told: Told, conversions: Longs) -> Longs:
    """When conversions were, by their ids; -1 for those that are none."""
    rows = np.flatnonzero(told.in_stream)
    ids, first = np.unique(told["conversion_id"][rows], return_index=True)
    if not len(ids):
        return np.full(len(conversions), -1, np.int64)
    at = np.minimum(np.searchsorted(ids, conversions), len(ids) - 1)
    found: Longs = np.where(ids[at] == conversions, told["conversion_timestamp"][rows][first][at], -1)
    return found


def _touches(told: Told, joined: Joined) -> tuple[Agreement, ...]:
    """Credits of the clicks that have a conversion, by the file and by the three attributions."""
    rows = np.flatnonzero(told.in_stream & (told["click"] == 1))
    number = np.full(len(told), -1, np.int64)
    number[rows] = np.arange(len(rows))
    ids = told["conversion_id"][rows]
    place, clicks = told["click_pos"][rows], told["click_nb"][rows]
    known, of, in_file = np.unique(ids, return_inverse=True, return_counts=True)
    touches = _number_of_touches(joined, known)[of]
    reasons = (
        *((reason, applies[rows]) for reason, applies in _outside(told)),
        ("the file counts clicks that it doesn't have", clicks != in_file[of]),
        ("the file counts clicks before an earlier conversion for that one", touches > in_file[of]),
        ("some clicks are older than 30 days, or of another user or campaign", touches < in_file[of]),
        ("two clicks are of one second, and the file doesn't tell their order", _ties(told, rows, of)),
    )

    def own(credits_: Credits) -> Longs:
        """For each of the clicks its share of its own conversion."""
        found = np.zeros(len(rows), np.int64)
        row = number[credits_.impression]
        mine = (row >= 0) & (ids[np.maximum(row, 0)] == credits_.conversion) if len(rows) else row >= 0
        found[row[mine]] = credits_.billionths[mine]
        return found

    even = np.abs(own(joined.linear) * clicks - WHOLE) < clicks**2
    return (
        _agreement("last_touch", (own(joined.last) > 0) == (place == clicks - 1), reasons),
        _agreement("first_touch", (own(joined.first) > 0) == (place == 0), reasons),
        _agreement("linear", even, reasons),
    )


def _number_of_touches(joined: Joined, known: Longs) -> Longs:
    """How many clicks have been emitted with a share of each of the known conversions."""
    if not len(known):
        return np.zeros(0, np.int64)
    at = np.minimum(np.searchsorted(known, joined.linear.conversion), len(known) - 1)
    return np.bincount(at[known[at] == joined.linear.conversion], minlength=len(known))


def _ties(told: Told, rows: Longs, of: Longs) -> Bools:
    """Whether a click's conversion has two clicks of one second."""
    if not len(of):
        return np.zeros(0, bool)
    tied = np.zeros(int(of.max()) + 1, bool)
    pairs, counts = np.unique(np.stack([of, told["timestamp"][rows]]), axis=1, return_counts=True)
    tied[pairs[0][counts > 1]] = True
    return tied[of]
