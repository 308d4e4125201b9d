"""Clients and reporters: a query over its starts, and its reports of one operator."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tailrace.server.hosts import HostTable
from tailrace.server.times import NEVER, SECOND
from tailrace.server.topology import latest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tailrace.server.times import Moment

LIVE_FOR = 60 * SECOND
"""The time after its last request during which a query is considered alive; queries send one every 10 s."""


class RefusedError(Exception):
    """A request that contradicts what is known; nothing has changed. Its text is for the client.

    Args:
        reason: the text.
        code: names a refusal that a client must know from others; see protocol.
    """

    def __init__(self, reason: str, code: str | None = None) -> None:
        super().__init__(reason)
        self.code = code


@dataclass
class Client:
    """A query of an application.

    Attributes:
        id: in the database; 0 before it is stored.
        run: the start that reports for it; empty for a client that doesn't send it.
        heard_at: the time of its last request, microseconds since 1970-01-01 UTC.
        heard_tick: the same moment by this server's monotonic clock.
        leaving: it has reported its end.
        told: the global low watermark in its last answer.
        took: clients that it has replaced, because it reads their inputs.
        query: the query's name; empty: none.
    """

    id: int
    name: str
    run: str
    heard_at: int = 0
    heard_tick: int = 0
    leaving: bool = False
    told: int | None = None
    took: set[str] = field(default_factory=set[str])
    query: str = ""

    def is_live(self, moment: Moment) -> bool:
        """True if it may still be running."""
        return not self.leaving and not self.is_silent(moment)

    def is_silent(self, moment: Moment) -> bool:
        """True if its last request is so old that it can't be running."""
        return moment.tick - self.heard_tick >= LIVE_FOR


@dataclass(frozen=True)
class RosterState:
    """The state of a source's roster.

    Attributes:
        stated: the client has said what counts: a list, or those seen.
        version: of the roster that the server has; empty for none.
        wanted: the version that the client has named last.
    """

    stated: bool = False
    version: str = ""
    wanted: str = ""

    @property
    def missing(self) -> bool:
        """The client has a roster that never arrived here: nothing may be concluded from the hosts known."""
        return self.wanted != self.version or (bool(self.wanted) and not self.stated)


@dataclass(frozen=True)
class Settings:
    """An operator's settings in the last report of a client.

    Attributes:
        completeness: the decimal as it was reported; "1" for what is no source.
        idle_after: how long a source waits for a silent host, in microseconds; None: silent hosts count.
        key_groups: how many key groups there are; None: the client doesn't say. hosts.INHERITED: those there
            are come from a database of format 2, and whose client hasn't reported since.
        reads: its inputs, or its output; None: unknown.
        label: what the operator does, in words; empty: the client has never said.
        logs: the name of logs that several clients read parts of; empty: they are this client's own.
    """

    upstreams: tuple[str, ...] = ()
    completeness: str = "1"
    idle_after: int | None = None
    key_groups: int | None = None
    reads: tuple[str, ...] | None = None
    label: str = ""
    logs: str = ""


@dataclass
class Reporter:
    """The reports of one client about one operator. Times are microseconds.

    Attributes:
        id: in the database; 0 as long as it isn't there.
        stamps: the input low watermark that a source's records were stamped with.
        told_input, told_output: low watermarks that it was told; the output never goes back.
        groups: output low watermark by key group; changed by `raise_groups` and `drop_groups` alone.
        hosts: of a source; empty for others.
        overflowed: the hosts' `active` when it last told of more hosts than are kept; None: never.
        raised_tick: when hosts rose last, by this server's clock of durations; None: not since it started.
        warnings: texts on what the server has ignored in its last report.
        batches: how many micro-batches it includes; None: its client doesn't say.
        batches_before: the same before the last report.
        begun: whether this run has said so. Before that, it may have gone back.
        had: how many it had included when it went back; None: it has caught up, or never went back.
    """

    id: int
    client: Client
    settings: Settings
    reported_at: int = 0
    stamps: int | None = None
    told_input: int | None = None
    told_output: int | None = None
    roster: RosterState = field(default_factory=RosterState)
    groups: dict[str, int] = field(default_factory=dict[str, int])
    hosts: HostTable = field(default_factory=HostTable)
    overflowed: int | None = None
    raised_tick: int | None = None
    warnings: tuple[str, ...] = ()
    batches: int | None = None
    batches_before: int | None = None
    begun: bool = True
    had: int | None = None
    _least: int | None = None

    def keeps_groups(self, key_groups: int | None) -> bool:
        """True if the known key groups stay when this number is reported; None: it isn't reported."""
        return key_groups is None or key_groups == self.settings.key_groups

    def raise_groups(self, groups: Mapping[str, int]) -> None:
        """Takes in what key groups have risen to."""
        self.groups.update(groups)
        self._least = None

    def drop_groups(self) -> None:
        """Forgets all key groups."""
        self.groups.clear()
        self._least = None

    def least_group(self) -> int | None:
        """The low watermark of the key group that is behind all others; None without any."""
        if self._least is None and self.groups:
            self._least = min(self.groups.values())
        return self._least

    def holds_all(self, forget_after: int) -> bool:
        """True if its data is incomplete here, so that no watermark may follow from it."""
        return self.roster.missing or self.lacks_groups() or self.is_over(forget_after)

    def lacks_groups(self) -> bool:
        """True if there are key groups that were never reported."""
        return self.settings.key_groups is not None and len(self.groups) < self.settings.key_groups

    def is_over(self, forget_after: int) -> bool:
        """True if it has hosts that weren't kept, and that would still count if they had been."""
        if self.overflowed is None or self.hosts.has_roster:
            return False
        waited = forget_after if self.hosts.idle_after is None else min(forget_after, self.hosts.idle_after)
        return self.hosts.active - self.overflowed < waited

    def is_mute(self) -> bool:
        """True if it has not reported anything yet that a source's watermark could follow from."""
        return self.stamps is None and bool((self.hosts.progress == NEVER).all())

    def tell(self, low_input: int | None, low_output: int | None) -> None:
        """Remembers an answer, which is never below earlier outputs.

        Inputs may fall: before the first report of a query's own source, its sink may get the input of
        another source of the same name.
        """
        self.told_output = latest(self.told_output, low_output)
        self.told_input = latest(low_input, self.told_output)
