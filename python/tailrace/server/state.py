"""An application in memory: what the database holds of it, and the low watermarks that follow."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from tailrace.server.hosts import HostTable
from tailrace.server.rules import parse_completeness
from tailrace.server.topology import LowWatermarks, Node, find_cycle, latest, low_watermarks

if TYPE_CHECKING:
    from collections.abc import Iterable
    from fractions import Fraction

    from tailrace.server.protocol import OperatorReport, Report

MAX_APP_OPERATORS = 1_000
MAX_SOURCE_HOSTS = 100_000


class RefusedError(Exception):
    """A request that contradicts what is known; nothing has changed. Its text is for the client."""


@dataclass(frozen=True)
class Settings:
    """What an operator is, as its client said last.

    Attributes:
        client: who reports it.
        completeness: the decimal as it was reported; "1" for what is no source.
        idle_after: of a source, in microseconds; None: silent hosts count.
    """

    kind: Literal["source", "operator", "sink"]
    client: str
    upstreams: tuple[str, ...] = ()
    completeness: str = "1"
    idle_after: int | None = None


@dataclass(frozen=True)
class RosterState:
    """What is known of a source's roster.

    Attributes:
        stated: a client has said what counts: a list, or those seen.
        version: of the roster that the server has.
        wanted: the newest version that a client has named.
    """

    stated: bool = False
    version: int = 0
    wanted: int = 0

    @property
    def missing(self) -> bool:
        """The client has a roster that never arrived here: nothing may be concluded from the hosts known."""
        return self.wanted > self.version or (self.wanted > 0 and not self.stated)


@dataclass
class Operator:
    """An operator: its settings, and maxima that were reported or told. Times are microseconds.

    Attributes:
        id: in the database.
        stamps: the input low watermark that a source's records were stamped with.
        advanced_to: an operator's decision; the output low watermark is at least that.
        told_input, told_output: what clients have been told; never taken back.
        key_groups: output low watermark by key group.
        hosts: of a source; empty for others.
        removed: taken out by an operator's decision until it is reported again; what was told is kept.
    """

    id: int
    name: str
    settings: Settings
    reported_at: int = 0
    stamps: int | None = None
    advanced_to: int | None = None
    told_input: int | None = None
    told_output: int | None = None
    roster: RosterState = field(default_factory=RosterState)
    key_groups: dict[str, int] = field(default_factory=dict)
    hosts: HostTable = field(default_factory=HostTable)
    removed: bool = False

    @property
    def is_source(self) -> bool:
        """Whether hosts and stamps decide its low watermark rather than key groups."""
        return self.settings.kind == "source"

    def completeness(self) -> Fraction:
        """The share of hosts that must have passed."""
        return parse_completeness(self.settings.completeness)

    def node(self, upstreams: tuple[str, ...]) -> Node:
        """The operator as the rules see it.

        Args:
            upstreams: from `App.upstreams`.
        """
        return Node(
            upstreams=upstreams,
            sink=self.settings.kind == "sink",
            bounds_input=[] if self.stamps is None else [self.stamps],
            bounds_output=self._source_bounds() if self.is_source else list(self.key_groups.values()),
            told_input=self.told_input,
            told_output=latest(self.told_output, self.advanced_to),
        )

    def _source_bounds(self) -> list[int | None]:
        if self.roster.missing:
            return [None]
        has_input = self.stamps is not None or bool(self.settings.upstreams)
        if has_input and not self.hosts.has_roster and not self.hosts.counting():
            return []  # it starts from stamps alone
        return [self.hosts.low_watermark(self.completeness())]


@dataclass
class App:
    """An application.

    Attributes:
        id: in the database; 0 if it isn't there yet.
        version: of its rows that this state has taken in.
        told: the global low watermark that clients have been told.
    """

    id: int
    name: str
    version: int = 0
    told: int | None = None
    reported_at: int = 0
    operators: dict[str, Operator] = field(default_factory=dict)

    def present(self) -> dict[str, Operator]:
        """The operators that weren't removed, by name."""
        return {name: operator for name, operator in self.operators.items() if not operator.removed}

    def upstreams(self) -> dict[str, tuple[str, ...]]:
        """What each operator present reads from; in place of one that was removed, what that read from."""
        return {name: self._read_by(operator) for name, operator in self.present().items()}

    def _read_by(self, operator: Operator) -> tuple[str, ...]:
        # There is no circle among all operators, removed ones too: `check` sees to it.
        found: dict[str, None] = {}
        for name in operator.settings.upstreams:
            upstream = self.operators.get(name)
            removed = upstream is not None and upstream.removed
            found.update(dict.fromkeys(self._read_by(upstream) if upstream and removed else (name,)))
        return tuple(found)

    def low_watermarks(self) -> LowWatermarks:
        """All low watermarks of operators present, none below what was told."""
        upstreams = self.upstreams()
        return low_watermarks({n: o.node(upstreams[n]) for n, o in self.present().items()}, self.told)

    def check(self, report: Report) -> None:
        """Refuses a report that contradicts what is known, before anything of it is taken in.

        Raises:
            RefusedError: it closes a cycle of operators, changes what an operator is, exceeds a limit, or has
                windows of an operator that is unknown.
        """
        reported = {o.operator: o for o in report.operators}
        upstreams: dict[str, Iterable[str]] = {n: o.settings.upstreams for n, o in self.operators.items()}
        upstreams.update({name: operator.upstreams for name, operator in reported.items()})
        cycle = find_cycle(upstreams)
        if cycle is not None:
            raise RefusedError(f"operators read from each other in a circle: {' <- '.join(cycle)}")
        if len(self.present().keys() | reported.keys()) > MAX_APP_OPERATORS:
            raise RefusedError(f"an application has at most {MAX_APP_OPERATORS} operators")
        for name, operator in reported.items():
            known = self.operators.get(name)
            if known is not None:
                _check_against(known, operator)
        for window in report.windows:
            if window.operator not in upstreams:
                raise RefusedError(f"the windows are of {window.operator!r}, an operator that is unknown")

    def source(self, name: str) -> Operator:
        """A source by its name.

        Raises:
            RefusedError: there is none.
        """
        operator = self.present().get(name)
        if operator is None or not operator.is_source:
            raise RefusedError(f"{name!r} is no source of {self.name!r}")
        return operator

    def newest(self) -> int:
        """The greatest event time that is known of in the application; 0 if there is none."""
        times = [o.hosts.newest() for o in self.operators.values()]
        times += [o.stamps for o in self.operators.values()]
        return max((time for time in times if time is not None), default=0)


def _check_against(known: Operator, reported: OperatorReport) -> None:
    if (reported.kind == "source") != known.is_source:
        raise RefusedError(f"{known.name!r} is known as a {known.settings.kind}, not as a {reported.kind}")
    more = known.hosts.unknown({*reported.progress, *(reported.roster or ())})
    if len(known.hosts) + more > MAX_SOURCE_HOSTS:
        raise RefusedError(
            f"a source has at most {MAX_SOURCE_HOSTS:,} hosts, and {known.name!r} would have more"
        )
