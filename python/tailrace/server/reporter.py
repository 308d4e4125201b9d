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
    """A request that contradicts the known state; nothing has changed. Its text is for the client.

    Args:
        reason: the text.
        code: identifies a refusal that a client must distinguish from others; see protocol.
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
        stated: the client has reported which hosts count: a list, or those seen.
        version: of the server's roster; empty for none.
        wanted: the version that the client last named.
    """

    stated: bool = False
    version: str = ""
    wanted: str = ""

    @property
    def missing(self) -> bool:
        """True if the client has a roster that never arrived here: the known hosts prove nothing then."""
        return self.wanted != self.version or (bool(self.wanted) and not self.stated)


@dataclass(frozen=True)
class Settings:
    """An operator's settings in the last report of a client.

    Attributes:
        completeness: the decimal as it was reported; "1" if the operator isn't a source.
        idle_after: how long a source waits for an idle host, in microseconds; None: idle hosts count.
        key_groups: the number of key groups; None: the client doesn't report it. hosts.INHERITED: the
            existing ones come from a database of format 2, and the client hasn't reported since.
        reads: its inputs, or its output; None: unknown.
        label: the description of the operator; empty: the client has never sent one.
        logs: the name of logs of which several clients read parts; empty: they are this client's own.
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
        id: in the database; 0 before it is stored.
        stamps: the input low watermark that a source's records were stamped with.
        told_input, told_output: low watermarks of its last answer; the output never goes back.
        groups: output low watermark by key group; changed by `raise_groups` and `drop_groups` alone.
        hosts: of a source; empty for others.
        overflowed: the hosts' `active` when it last reported more hosts than are kept; None: never.
        raised_tick: the last progress of hosts, by this server's monotonic clock; None: none since it
            started.
        warnings: texts about the parts of its last report that the server has ignored.
        batches: the number of micro-batches that it includes; None: its client doesn't report it.
        batches_before: the same before the last report.
        begun: whether this run has reported it. Before that, the run may have gone back.
        had: the number that it had included when it went back; None: it has caught up, or never went back.
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
        """Applies the progress of key groups."""
        self.groups.update(groups)
        self._least = None

    def drop_groups(self) -> None:
        """Removes all key groups."""
        self.groups.clear()
        self._least = None

    def least_group(self) -> int | None:
        """The low watermark of the slowest key group; None without any."""
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
        """Stores an answer, which is never below earlier outputs.

        Inputs may fall: before the first report of a query's own source, its sink may get the input of
        another source of the same name.
        """
        self.told_output = latest(self.told_output, low_output)
        self.told_input = latest(low_input, self.told_output)
