"""Hosts as the completeness rule sees them: those of one reporter, or of several put together."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from tailrace.server.rules import low_watermark
from tailrace.server.times import NEVER

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from numpy.typing import NDArray


@dataclass(frozen=True)
class Host:
    """One host as it stands.

    Attributes:
        progress: how far its log has been read, in microseconds; None if it was never seen.
        counts: whether the watermark waits for it: it is rostered, or there is no roster, and not excluded.
        excluded: whether an operator has taken it out.
        idle: whether it is silent for longer than its source waits.
    """

    name: str
    progress: int | None
    counts: bool
    excluded: bool
    idle: bool = False


class Counted:
    """Arrays of one length with a value for each host. They are valid until the hosts change.

    Args:
        names: the hosts' names; names behind the arrays' length don't belong to them.
        progress: how far each log has been read; NEVER for a host that was never seen.
        named: whether a roster names the host, or without a roster whether it was seen.
        idle: whether the host has been silent for longer than its source waits.
        excluded: whether an operator has taken it out.
        has_roster: whether a roster names any.

    Attributes:
        counts: the hosts that the watermark waits for.
        is_idle: the hosts that would count if they weren't idle.
        is_excluded: the hosts that an operator has taken out.
    """

    def __init__(
        self,
        names: Sequence[str],
        progress: NDArray[np.int64],
        named: NDArray[np.bool_],
        idle: NDArray[np.bool_],
        excluded: NDArray[np.bool_],
        has_roster: bool,
    ) -> None:
        self.has_roster = has_roster
        self.progress = progress
        self.is_idle: NDArray[np.bool_] = idle & named & ~excluded
        self.counts: NDArray[np.bool_] = named & ~excluded & ~idle
        self._names = names
        self.is_excluded: NDArray[np.bool_] = excluded

    def __len__(self) -> int:
        return len(self.progress)

    def idle(self) -> list[str]:
        """The hosts that would count if they weren't idle, by name."""
        return sorted(self._names[i] for i in np.flatnonzero(self.is_idle).tolist())

    def excluded(self) -> list[str]:
        """The hosts taken out, by name."""
        return sorted(self._names[i] for i in np.flatnonzero(self.is_excluded).tolist())

    def counting(self) -> int:
        """The number of hosts that count."""
        return int(np.count_nonzero(self.counts))

    def newest(self) -> int | None:
        """The progress of the host that is ahead of all others; None if none was seen."""
        known = int(self.progress.max(initial=NEVER))
        return None if known == NEVER else known

    def low_watermark(self, completeness: Fraction, without: str | None = None) -> int | None:
        """The completeness rule over the hosts that count.

        Args:
            completeness: the share of them that must have passed.
            without: a host that doesn't count.
        """
        if without is None:
            return low_watermark(self.progress[self.counts], completeness)
        names = islice(self._names, len(self))
        others = np.fromiter((name != without for name in names), bool, len(self))
        return low_watermark(self.progress[self.counts & others], completeness)

    def behind(self, time: int) -> int:
        """The number of hosts that count and haven't been read up to a time."""
        return int(np.count_nonzero(self.progress[self.counts] < time))

    def extent(self) -> tuple[int | None, int | None]:
        """The progress of the slowest and of the fastest host that counts; None: never seen."""
        progress = self.progress[self.counts]
        if not len(progress):
            return None, None
        slowest, fastest = (None if time == NEVER else int(time) for time in (progress.min(), progress.max()))
        return slowest, fastest

    def named_like(self, part: str) -> NDArray[np.bool_]:
        """The hosts whose names contain some text, in any case."""
        wanted = part.casefold()
        names = islice(self._names, len(self))
        return np.fromiter((wanted in name.casefold() for name in names), bool, len(self))

    def slowest(self, limit: int, chosen: NDArray[np.bool_] | None = None) -> list[Host]:
        """The hosts with the smallest progress, those never seen first, equal ones by name.

        Args:
            limit: the most hosts to return.
            chosen: which hosts; None: all.
        """
        places = np.arange(len(self)) if chosen is None else np.flatnonzero(chosen)
        progress = self.progress[places]
        # The k-th smallest first, because sorting 10,000 hosts for a page of 20 costs more.
        limit = min(limit, len(places))
        if not limit:
            return []
        bound = np.partition(progress, limit - 1)[limit - 1]
        near = places[progress <= bound].tolist()
        return [self._host(i) for i in sorted(near, key=lambda i: (self.progress[i], self._names[i]))[:limit]]

    def _host(self, place: int) -> Host:
        time = int(self.progress[place])
        return Host(
            self._names[place],
            None if time == NEVER else time,
            bool(self.counts[place]),
            bool(self.is_excluded[place]),
            bool(self.is_idle[place]),
        )
