"""Hosts of several reporters of one source, put together: the least progress of who reports each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tailrace.server.counted import Counted
from tailrace.server.rules import NEVER

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from numpy.typing import NDArray

    from tailrace.server.hosts import HostTable

_UNREAD = np.iinfo(np.int64).max


class HostUnion:
    """Places of all reporters' hosts in one array: found once, and those that are new, later.

    It is thrown away when a reporter leaves or a host is forgotten.
    """

    def __init__(self) -> None:
        self._names: list[str] = []
        self._index: dict[str, int] = {}
        self._places: dict[int, NDArray[np.int64]] = {}

    def counted(self, tables: Sequence[HostTable], excluded: Collection[str]) -> Counted:
        """The hosts as the completeness rule sees them.

        A host that one reporter knows from its roster alone is as far as others have read it. What was
        inherited from a database that didn't know its reporter counts where nobody has reported it since.

        Args:
            tables: of each reporter that counts.
            excluded: names that an operator's decision has taken out.
        """
        places = [self._placed(table) for table in tables]
        size = len(self._names)
        told = np.zeros(size, bool)
        for table, at in zip(tables, places, strict=True):
            told[at] |= (table.progress != NEVER) & ~table.inherited
        progress = np.full(size, _UNREAD, np.int64)
        of_idle = np.full(size, _UNREAD, np.int64)
        named, counts = np.zeros(size, bool), np.zeros(size, bool)
        for table, at in zip(tables, places, strict=True):
            one = table.counted()
            own = ~(table.inherited & told[at])
            named[at] |= own & (one.counts | one.is_idle)
            counts[at] |= own & one.counts
            read = own & (table.progress != NEVER)
            _lower(progress, at, read & ~one.is_idle, table.progress)
            _lower(of_idle, at, read, table.progress)
        progress = np.where(progress == _UNREAD, of_idle, progress)
        progress[progress == _UNREAD] = NEVER
        taken_out = np.zeros(size, bool)
        taken_out[[self._index[name] for name in excluded if name in self._index]] = True
        rostered = any(table.has_roster for table in tables)
        return Counted(self._names, progress, named, named & ~counts, taken_out, rostered)

    def _placed(self, table: HostTable) -> NDArray[np.int64]:
        have = self._places.get(id(table), np.zeros(0, np.int64))
        if len(have) < len(table):
            index = self._index
            more = [index.setdefault(name, len(index)) for name in table.names[len(have) :]]
            self._names.extend(list(index)[len(self._names) :])
            have = np.concatenate([have, np.array(more, np.int64)])
            self._places[id(table)] = have
        return have


def _lower(
    into: NDArray[np.int64],
    at: NDArray[np.int64],
    which: NDArray[np.bool_],
    progress: NDArray[np.int64],
) -> None:
    places = at[which]
    into[places] = np.minimum(into[places], progress[which])
