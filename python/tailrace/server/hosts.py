"""The hosts of one source in memory: arrays of numbers, so that ten thousand of them cost microseconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tailrace.server.rules import NEVER, low_watermark

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from fractions import Fraction

    from numpy.typing import NDArray

_FIRST_ROOM = 64


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


class HostTable:
    """Progress, roster and exclusions of a source's hosts.

    Attributes:
        has_roster: whether hosts count because a roster names them, rather than because they were seen.
    """

    def __init__(self) -> None:
        self.has_roster = False
        self._names: list[str] = []
        self._index: dict[str, int] = {}
        self._progress = np.full(_FIRST_ROOM, NEVER, np.int64)
        self._rostered = np.zeros(_FIRST_ROOM, bool)
        self._excluded = np.zeros(_FIRST_ROOM, bool)
        # Silence is what this server sees, and not in the database: before it started it has seen nothing.
        self._risen = np.ones(_FIRST_ROOM, bool)
        self._risen_at = np.zeros(_FIRST_ROOM, np.int64)
        self._idle = np.zeros(_FIRST_ROOM, bool)

    def __len__(self) -> int:
        return len(self._names)

    def fill(self, rows: Sequence[tuple[str, int, int, int]]) -> None:
        """Takes rows of the store over what is here: name, progress, rostered, excluded."""
        if not rows:
            return
        names, progress, rostered, excluded = zip(*rows, strict=True)
        # Arrays once, not once a use: a million rows are read when a server starts.
        at, read = np.array(self._places(names)), np.array(progress, np.int64)
        self._risen[at] |= self._progress[at] < read
        self._progress[at] = read
        self._rostered[at] = np.array(rostered, bool)
        self._excluded[at] = np.array(excluded, bool)

    def news(self, progress: Mapping[str, int]) -> dict[str, int]:
        """Those of some reported maxima that are above what is known."""
        index, known = self._index, self._progress
        places = [index.get(name, -1) for name in progress]
        before = np.where(np.array(places, np.int64) < 0, NEVER, known[places])
        moved = np.fromiter(progress.values(), np.int64, len(places)) > before
        return {name: time for (name, time), new in zip(progress.items(), moved, strict=True) if new}

    def advance(self, progress: Mapping[str, int]) -> None:
        """Takes maxima in, from `news`."""
        places = self._places(progress)  # first: it may make the arrays anew
        self._progress[places] = list(progress.values())
        self._risen[places] = True

    def judge_silence(self, now: int, idle_after: int | None) -> list[str]:
        """Finds the hosts whose progress hasn't risen for too long; they count again once it has.

        Args:
            now: the server's clock, in microseconds.
            idle_after: how long that is; None: all are waited for.

        Returns:
            Those hosts that have become idle with this, by name.
        """
        size = len(self)
        self._risen_at[:size][self._risen[:size]] = now
        self._risen[:size] = False
        before = self._idle[:size].copy()
        if idle_after is None:
            self._idle[:size] = False
            return []
        self._idle[:size] = now - self._risen_at[:size] >= idle_after
        # Taken out, or not in the roster: nobody waits for it anyway.
        return sorted(self._names[i] for i in np.flatnonzero(self._idle[:size] & ~before & self._named()))

    def idle(self) -> list[str]:
        """The hosts that would count if they weren't idle, by name."""
        size = len(self)
        return sorted(self._names[i] for i in np.flatnonzero(self._idle[:size] & self._named()))

    def unknown(self, names: Iterable[str]) -> int:
        """How many of some names have no row yet."""
        return sum(name not in self._index for name in names)

    def roster(self) -> set[str]:
        """The hosts that the roster names."""
        return {self._names[i] for i in np.flatnonzero(self._rostered[: len(self)])}

    def set_roster(self, names: Iterable[str]) -> None:
        """Replaces the roster; an empty one: those seen count."""
        places = self._places(names)
        self._rostered[:] = False
        self._rostered[places] = True
        self.has_roster = bool(places)

    def set_excluded(self, name: str, *, excluded: bool) -> None:
        """Takes a host out, or back in."""
        places = self._places([name])
        self._excluded[places] = excluded

    def is_known(self, name: str) -> bool:
        """Whether the host was rostered or seen."""
        return name in self._index

    def excluded(self) -> list[str]:
        """The hosts taken out, by name."""
        return sorted(self._names[i] for i in np.flatnonzero(self._excluded[: len(self)]))

    def counting(self) -> int:
        """How many hosts count."""
        return int(np.count_nonzero(self._counts()))

    def newest(self) -> int | None:
        """The progress of the host that is ahead of all others; None if none was seen."""
        known = int(self._progress[: len(self)].max(initial=NEVER))
        return None if known == NEVER else known

    def low_watermark(self, completeness: Fraction) -> int | None:
        """The completeness rule over the hosts that count."""
        return low_watermark(self._progress[: len(self)][self._counts()], completeness)

    def behind(self, time: int) -> int:
        """How many of the hosts that count haven't been read up to a time."""
        return int(np.count_nonzero(self._progress[: len(self)][self._counts()] < time))

    def slowest(self, limit: int) -> list[Host]:
        """The hosts with the smallest progress, those never seen first, equal ones by name.

        Args:
            limit: how many at most.
        """
        progress = self._progress[: len(self)]
        # The k-th smallest first: sorting ten thousand rows by name for a page of twenty would cost more.
        limit = min(limit, len(self))
        if not limit:
            return []
        bound = np.partition(progress, limit - 1)[limit - 1]
        near = np.flatnonzero(progress <= bound).tolist()
        times = progress.tolist()
        counts = self._counts()
        idle = self._idle[: len(self)] & self._named()
        return [
            Host(
                self._names[i],
                None if times[i] == NEVER else times[i],
                bool(counts[i]),
                bool(self._excluded[i]),
                bool(idle[i]),
            )
            for i in sorted(near, key=lambda i: (times[i], self._names[i]))[:limit]
        ]

    def _counts(self) -> NDArray[np.bool_]:
        counts: NDArray[np.bool_] = self._named() & ~self._idle[: len(self)]
        return counts

    def _named(self) -> NDArray[np.bool_]:
        """Those that count unless they are idle."""
        size = len(self)
        # Excluding a host before it was ever seen makes a row of it, which mustn't count without a roster.
        named = self._rostered[:size] if self.has_roster else self._progress[:size] != NEVER
        included: NDArray[np.bool_] = named & ~self._excluded[:size]
        return included

    def _places(self, names: Iterable[str]) -> list[int]:
        index = self._index
        found = [index.setdefault(name, len(index)) for name in names]
        if len(index) > len(self._names):
            self._names.extend(list(index)[len(self._names) :])
            self._grow(len(index))
        return found

    def _grow(self, size: int) -> None:
        if size > len(self._progress):
            more = max(size, 2 * len(self._progress)) - len(self._progress)
            self._progress = np.concatenate([self._progress, np.full(more, NEVER, np.int64)])
            self._rostered = np.concatenate([self._rostered, np.zeros(more, bool)])
            self._excluded = np.concatenate([self._excluded, np.zeros(more, bool)])
            self._risen = np.concatenate([self._risen, np.ones(more, bool)])
            self._risen_at = np.concatenate([self._risen_at, np.zeros(more, np.int64)])
            self._idle = np.concatenate([self._idle, np.zeros(more, bool)])
