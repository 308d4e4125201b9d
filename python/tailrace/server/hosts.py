"""The hosts of one reporter of a source, and of several together: arrays, to handle 10,000 hosts at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tailrace.server.counted import Counted
from tailrace.server.times import NEVER

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

_FIRST_ROOM = 64
_UNREAD = np.iinfo(np.int64).max

INHERITED = -1
"""Stands for `risen` of a host, and for the number of key groups, from a database of format 2, which didn't
store their reporters."""


class HostTable:
    """Progress and roster of the hosts of one reporter.

    Idleness is measured in the reporter's own time, `active`, which passes only while some hosts advance. So
    a night without logs, a query that is down and a clock that jumps make no host idle.

    Args:
        excluded: names that an operator's decision has excluded; shared, and changed only by its owner, who
            then calls `exclusions_changed`.

    Attributes:
        has_roster: whether hosts count because a roster names them, rather than because they were seen.
        active: microseconds in which hosts of this table have advanced.
        idle_after: how long a host may be idle, in microseconds of `active`; None: all are waited for.
    """

    def __init__(self, excluded: Collection[str] = ()) -> None:
        self.has_roster: bool = False
        self.active = 0
        self.idle_after: int | None = None
        self._excluded_names = excluded
        self._names: list[str] = []
        self._index: dict[str, int] = {}
        self._progress = np.full(_FIRST_ROOM, NEVER, np.int64)
        self._rostered = np.zeros(_FIRST_ROOM, bool)
        self._risen = np.zeros(_FIRST_ROOM, np.int64)
        self._excluded: NDArray[np.bool_] | None = None
        self._known_idle: set[str] = set()

    def __len__(self) -> int:
        return len(self._names)

    @property
    def names(self) -> Sequence[str]:
        """All hosts, in the order of their arrival; it only grows."""
        return self._names

    @property
    def progress(self) -> NDArray[np.int64]:
        """The progress of each host; NEVER for a host that is only in a roster."""
        return self._progress[: len(self)]

    @property
    def inherited(self) -> NDArray[np.bool_]:
        """The hosts of a database of format 2, which didn't store their reporter."""
        inherited: NDArray[np.bool_] = self._risen[: len(self)] == INHERITED
        return inherited

    def fill(self, rows: Sequence[tuple[str, int, int, int]]) -> None:
        """Replaces hosts by rows of the store: name, progress, rostered, risen."""
        if not rows:
            return
        names, progress, rostered, risen = zip(*rows, strict=True)
        # Each array is made once: a server reads a million rows when it starts.
        at = np.array(self._places(names))
        self._progress[at] = np.array(progress, np.int64)
        self._rostered[at] = np.array(rostered, bool)
        self._risen[at] = np.array(risen, np.int64)

    def news(self, progress: Mapping[str, int]) -> dict[str, int]:
        """The reported maxima that change something."""
        index, known, risen = self._index, self._progress, self._risen
        places = np.array([index.get(name, -1) for name in progress], np.int64)
        given = np.fromiter(progress.values(), np.int64, len(places))
        new = (places < 0) | (given > known[places]) | (risen[places] == INHERITED)
        return {name: time for (name, time), is_new in zip(progress.items(), new, strict=True) if is_new}

    def advance(self, progress: Mapping[str, int]) -> None:
        """Applies maxima from `news`, as of `active`."""
        places = self._places(progress)  # first: it may replace the arrays
        # An inherited value may be another reporter's progress, so it doesn't count here.
        known = np.where(self._risen[places] == INHERITED, NEVER, self._progress[places])
        self._progress[places] = np.maximum(known, list(progress.values()))
        self._risen[places] = self.active

    def unknown(self, names: Iterable[str]) -> list[str]:
        """The names that are not in the table."""
        return [name for name in names if name not in self._index]

    def roster(self) -> set[str]:
        """The hosts of the roster."""
        return {self._names[i] for i in np.flatnonzero(self._rostered[: len(self)])}

    def set_roster(self, names: Iterable[str]) -> None:
        """Replaces the roster; an empty one: those seen count."""
        places = self._places(names)
        self._rostered[:] = False
        self._rostered[places] = True
        self.has_roster = bool(places)

    def unrostered(self) -> list[str]:
        """The hosts that are in no roster."""
        return [self._names[i] for i in np.flatnonzero(~self._rostered[: len(self)])]

    def silent_for(self, time: int) -> list[str]:
        """The hosts that are in no roster and haven't advanced for some microseconds of `active`."""
        size = len(self)
        silent = ~self._rostered[:size] & (self._silence() >= time)
        return [self._names[i] for i in np.flatnonzero(silent)]

    def forget(self, names: Collection[str]) -> None:
        """Removes hosts as if they had never been reported."""
        gone = set(names)
        kept = [
            (name, int(self._progress[i]), int(self._rostered[i]), int(self._risen[i]))
            for i, name in enumerate(self._names)
            if name not in gone
        ]
        fresh = HostTable(self._excluded_names)
        fresh.has_roster, fresh.active, fresh.idle_after = self.has_roster, self.active, self.idle_after
        fresh.fill(kept)
        self.__dict__.update(fresh.__dict__)

    def newly_idle(self) -> list[str]:
        """Hosts that have become idle since the last call, by name."""
        if self.idle_after is None:
            self._known_idle.clear()
            return []
        now = set(self.counted().idle())
        before, self._known_idle = self._known_idle, now
        return sorted(now - before)

    def read_up_to(self, name: str) -> int:
        """The progress of a host that is known."""
        return int(self._progress[self._index[name]])

    def is_known(self, name: str) -> bool:
        """True if the host was rostered or seen."""
        return name in self._index

    def exclusions_changed(self) -> None:
        """Called when hosts were excluded, or included again."""
        self._excluded = None

    def counted(self) -> Counted:
        """The hosts as the completeness rule sees them."""
        size = len(self)
        named = self._rostered[:size] if self.has_roster else self._progress[:size] != NEVER
        idle = np.zeros(size, bool) if self.idle_after is None else self._silence() >= self.idle_after
        return Counted(self._names, self.progress, named, idle, self._taken_out(), self.has_roster)

    def _taken_out(self) -> NDArray[np.bool_]:
        size = len(self)
        if self._excluded is None or len(self._excluded) != size:
            self._excluded = np.zeros(size, bool)
            self._excluded[[self._index[name] for name in self._excluded_names if name in self._index]] = True
        return self._excluded

    def _silence(self) -> NDArray[np.int64]:
        silence: NDArray[np.int64] = self.active - np.maximum(self._risen[: len(self)], 0)
        return silence

    def _places(self, names: Iterable[str]) -> list[int]:
        index = self._index
        found = [index.setdefault(name, len(index)) for name in names]
        if len(index) > len(self._names):
            first = len(self._names)
            self._names.extend(list(index)[first:])
            self._grow(len(index))
            # A new host's idle time begins now.
            self._risen[first : len(index)] = self.active
        return found

    def _grow(self, size: int) -> None:
        if size > len(self._progress):
            more = max(size, 2 * len(self._progress)) - len(self._progress)
            self._progress = np.concatenate([self._progress, np.full(more, NEVER, np.int64)])
            self._rostered = np.concatenate([self._rostered, np.zeros(more, bool)])
            self._risen = np.concatenate([self._risen, np.zeros(more, np.int64)])


class HostUnion:
    """The hosts of all reporters in one array. Each table's places in it are computed once.

    Its owner makes a new one when a reporter or a host is removed.

    Attributes:
        apart: for each table, the numbers of the hosts that are waited for because it has read nothing of
            them, although another table has.
    """

    def __init__(self) -> None:
        self._names: list[str] = []
        self._index: dict[str, int] = {}
        self._places: dict[int, NDArray[np.int64]] = {}
        self._ranges: dict[int, slice] = {}
        self.apart: list[NDArray[np.intp]] = []

    def counted(self, tables: Sequence[HostTable], excluded: Collection[str], logs: Sequence[str]) -> Counted:
        """The hosts as the completeness rule sees them: for each host the minimum progress of its reporters.

        A host of a reporter's roster of which that reporter has read nothing is waited for, because other
        reporters may have read other logs of it. This doesn't apply among reporters that give their logs the
        same name. An inherited host counts until a reporter has reported it.

        Args:
            tables: the table of each reporter.
            excluded: names that an operator's decision has excluded.
            logs: the name that each reporter gives its logs; empty: they are its own.
        """
        places = [self._placed(table) for table in tables]
        size = len(self._names)
        told = np.zeros(size, bool)
        for table, at in zip(tables, places, strict=True):
            told[at] |= (table.progress != NEVER) & ~table.inherited
        read_in = {name: np.zeros(size, bool) for name in logs if name}
        for table, at, name in zip(tables, places, logs, strict=True):
            if name:
                read_in[name][at] |= table.progress != NEVER
        progress = np.full(size, _UNREAD, np.int64)
        of_idle = np.full(size, _UNREAD, np.int64)
        named, counts = np.zeros(size, bool), np.zeros(size, bool)
        self.apart = []
        for table, at, name in zip(tables, places, logs, strict=True):
            one = table.counted()
            own = ~(table.inherited & told[at])
            named[at] |= own & (one.counts | one.is_idle)
            counts[at] |= own & one.counts
            read = own & (table.progress != NEVER)
            lacks = own & one.counts & ~(read_in[name][at] if name else read)
            self.apart.append(np.flatnonzero(lacks & told[at]))
            waits = np.where(lacks, NEVER, _UNREAD)
            _lower(progress, at, np.where(read & ~one.is_idle, table.progress, waits))
            _lower(of_idle, at, np.where(read, table.progress, _UNREAD))
        progress = np.where(progress == _UNREAD, of_idle, progress)
        progress[progress == _UNREAD] = NEVER
        taken_out = np.zeros(size, bool)
        taken_out[[self._index[name] for name in excluded if name in self._index]] = True
        rostered = any(table.has_roster for table in tables)
        return Counted(self._names, progress, named, named & ~counts, taken_out, rostered)

    def _placed(self, table: HostTable) -> NDArray[np.int64] | slice:
        """The places of a table's hosts; a range if they are consecutive, for which numpy copies less."""
        have = self._places.get(id(table), np.zeros(0, np.int64))
        if len(have) < len(table):
            index = self._index
            more = [index.setdefault(name, len(index)) for name in table.names[len(have) :]]
            self._names.extend(list(index)[len(self._names) :])
            have = np.concatenate([have, np.array(more, np.int64)])
            self._places[id(table)] = have
            self._ranges.pop(id(table), None)
            if (np.diff(have) == 1).all():
                self._ranges[id(table)] = slice(int(have[0]), int(have[-1]) + 1)
        return self._ranges.get(id(table), have)


def _lower(into: NDArray[np.int64], at: NDArray[np.int64] | slice, progress: NDArray[np.int64]) -> None:
    into[at] = np.minimum(into[at], progress)
