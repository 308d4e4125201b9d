"""An application in memory: its operators, their reporters, and the resulting low watermarks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from tailrace.server.hosts import HostUnion
from tailrace.server.names import InputIndex
from tailrace.server.reporter import Client, RefusedError, Reporter
from tailrace.server.rules import known, parse_completeness
from tailrace.server.topology import LowWatermarks, Node, latest, low_watermarks, read_through, sort

if TYPE_CHECKING:
    from collections.abc import Collection
    from fractions import Fraction

    from tailrace.server.counted import Counted
    from tailrace.server.names import Inputs

DAY = 86_400_000_000
_APART = 5


@dataclass(frozen=True)
class Limits:
    """The server's limits and retention.

    Attributes:
        future: how far ahead of the server's clock a time may be, in microseconds.
        forget_hosts_after: how long a host without a roster may be idle before it is removed.
        hosts: hosts of one reporter of a source.
        app_hosts: hosts of all reporters of an application.
        groups: key groups of one reporter of an operator.
        app_groups: key groups of all reporters of an application.
        operators: operators of an application, removed ones too.
        edges: upstreams that an application's operators name, in all.
        clients: queries of an application.
        reporters: reporters of all operators of an application.
        reads: inputs and outputs that all reporters of an application name.
        apps: applications of the server.
    """

    future: int = DAY
    forget_hosts_after: int = 7 * DAY
    hosts: int = 100_000
    app_hosts: int = 2_000_000
    groups: int = 10_000
    app_groups: int = 2_000_000
    operators: int = 1_000
    edges: int = 20_000
    clients: int = 1_000
    reporters: int = 20_000
    reads: int = 500_000
    apps: int = 1_000


@dataclass
class Operator:
    """An operator with its decisions, its answers and its reporters. Times are microseconds.

    Attributes:
        id: in the database; 0 before it is stored.
        advanced_to: a person's decision; the output low watermark is at least that.
        told_input, told_output: low watermarks in answers to readers; they never go back.
        excluded: hosts that a person has excluded.
        reporters: its reporters, by the names of their clients.
        removed: removed by a person's decision until it is reported again; its answers are kept.
        left_upstreams: its upstreams when it was removed.
    """

    id: int
    name: str
    kind: Literal["source", "operator", "sink"]
    advanced_to: int | None = None
    told_input: int | None = None
    told_output: int | None = None
    removed: bool = False
    left_upstreams: tuple[str, ...] = ()
    excluded: set[str] = field(default_factory=set[str])
    reporters: dict[str, Reporter] = field(default_factory=dict[str, "Reporter"])
    _readers: InputIndex = field(default_factory=InputIndex)
    _union: HostUnion = field(default_factory=HostUnion)
    _counted: Counted | None = None
    _node: Node | None = None

    @property
    def is_source(self) -> bool:
        """True if hosts and stamps decide its low watermark rather than key groups."""
        return self.kind == "source"

    @property
    def reported_at(self) -> int:
        """The time of its last report."""
        return max((reporter.reported_at for reporter in self.reporters.values()), default=0)

    @property
    def upstreams(self) -> tuple[str, ...]:
        """The upstreams that its reporters name; for a removed operator, those at its removal."""
        if self.removed:
            return self.left_upstreams
        every = [name for reporter in self.reporters.values() for name in reporter.settings.upstreams]
        return tuple(dict.fromkeys(every))

    def sharing(self, inputs: Inputs) -> dict[str, str]:
        """Clients of reporters that read any of some inputs, each with the common inputs."""
        reads = {name: reporter.settings.reads for name, reporter in self.reporters.items()}
        self._readers.update({name: names for name, names in reads.items() if names is not None})
        return self._readers.sharing(inputs)

    def completeness_text(self) -> str:
        """The strictest share of hosts of any reporter, as it was reported; without reporters 1."""
        shares = [reporter.settings.completeness for reporter in self.reporters.values()]
        return max(shares, key=parse_completeness, default="1")

    def completeness(self) -> Fraction:
        """The share of hosts that must have passed."""
        return parse_completeness(self.completeness_text())

    def changed(self) -> None:
        """Drops computed values after a change."""
        self._counted = self._node = None

    def shrunk(self) -> None:
        """Called when a reporter or a host was removed."""
        self._union = HostUnion()
        self.changed()

    def exclude(self, host: str, *, excluded: bool) -> None:
        """Excludes a host, or includes it again."""
        (self.excluded.add if excluded else self.excluded.discard)(host)
        for reporter in self.reporters.values():
            reporter.hosts.exclusions_changed()
        self.changed()

    def hosts(self) -> Counted:
        """All hosts of a source, merged over all reporters."""
        if self._counted is None:
            reporters = self.reporters.values()
            tables = [reporter.hosts for reporter in reporters]
            if len(tables) == 1:
                self._counted = tables[0].counted()
            else:
                logs = [reporter.settings.logs for reporter in reporters]
                self._counted = self._union.counted(tables, self.excluded, logs)
        return self._counted

    def apart(self) -> dict[str, tuple[list[str], int]]:
        """Hosts that are waited for because a client's own logs lack them, although others have read them.

        Returns:
            By client, the first of these hosts and how many there are.
        """
        self.hosts()
        if len(self.reporters) == 1:
            return {}
        found: dict[str, tuple[list[str], int]] = {}
        for (client, reporter), places in zip(self.reporters.items(), self._union.apart, strict=True):
            if len(places):
                names = reporter.hosts.names
                first: list[int] = places[:_APART].tolist()
                found[client] = [names[i] for i in first], len(places)
        return found

    def holding(self, output: int | None, forget_after: int) -> set[str]:
        """The clients that hold back the output low watermark, rather than something upstream.

        Args:
            output: the low watermark.
            forget_after: Limits.forget_hosts_after.
        """
        found: set[str] = set()
        apart = self.apart() if self.is_source else {}
        for name, reporter in self.reporters.items():
            if self.is_source:
                hosts = reporter.hosts.counted()
                slowest, _ = hosts.extent()
                lacks = bool(hosts.counting()) and slowest is None and output is None
                own = None if slowest is None else hosts.low_watermark(self.completeness())
                is_least = lacks or (own is not None and output is not None and own <= output)
            else:
                least = known(reporter.least_group())
                is_least = bool(reporter.groups) and (
                    least is None or (output is not None and least <= output)
                )
            if is_least or name in apart or reporter.holds_all(forget_after):
                found.add(name)
        return found

    def node(self, forget_after: int) -> Node:
        """The operator as the rules see it.

        Args:
            forget_after: Limits.forget_hosts_after.
        """
        if self._node is None:
            stamps = [r.stamps for r in self.reporters.values() if r.stamps is not None]
            self._node = Node(
                upstreams=self.upstreams,
                sink=self.kind == "sink",
                bounds_input=stamps,
                bounds_output=self._bounds(forget_after, has_input=bool(stamps)),
                removed=self.removed,
            )
        return self._node

    def _bounds(self, forget_after: int, *, has_input: bool) -> list[int | None]:
        if self.removed:
            return []
        if any(reporter.holds_all(forget_after) for reporter in self.reporters.values()):
            return [None]
        if not self.is_source:
            return [known(r.least_group()) for r in self.reporters.values() if r.groups]
        hosts = self.hosts()
        if (has_input or self.upstreams) and not hosts.has_roster and not hosts.counting():
            return []  # it starts from stamps alone
        return [hosts.low_watermark(self.completeness())]


@dataclass
class App:
    """An application.

    Attributes:
        id: in the database; 0 before it is stored.
        version: the version of its rows that this state includes.
        told: the global low watermark in answers to readers.
        clients: queries by name.
    """

    id: int
    name: str
    version: int = 0
    told: int | None = None
    reported_at: int = 0
    operators: dict[str, Operator] = field(default_factory=dict[str, Operator])
    clients: dict[str, Client] = field(default_factory=dict[str, "Client"])
    _order: list[str] | None = None

    def rewired(self) -> None:
        """Called when operators were added or removed, or have other upstreams."""
        self._order = None

    def present(self) -> dict[str, Operator]:
        """The operators that weren't removed, by name."""
        return {name: operator for name, operator in self.operators.items() if not operator.removed}

    def reporter(self, client: str, operator: str) -> Reporter | None:
        """A client's reporter of an operator; None if either is unknown."""
        known = self.operators.get(operator)
        return None if known is None else known.reporters.get(client)

    def reporters_of(self, client: str) -> dict[str, Reporter]:
        """The reporters of a client, by operator."""
        return {name: o.reporters[client] for name, o in self.operators.items() if client in o.reporters}

    def edges(self) -> dict[str, tuple[str, ...]]:
        """The upstreams of each operator, removed ones too."""
        return {name: operator.upstreams for name, operator in self.operators.items()}

    def upstreams(self) -> dict[str, tuple[str, ...]]:
        """The upstreams of each present operator; a removed one is replaced by its own upstreams."""
        removed = {name for name, operator in self.operators.items() if operator.removed}
        return read_through(self.edges(), removed, self.order())

    def order(self) -> list[str]:
        """All operators, each after its upstreams."""
        if self._order is None:
            self._order = sort(self.edges())
        return self._order

    def computed(self, limits: Limits, mute: Collection[str] = ()) -> LowWatermarks:
        """All low watermarks that follow from the current state, regardless of earlier answers.

        Args:
            limits: the server's.
            mute: sources that are treated as unknown.
        """
        nodes: dict[str, Node] = {}
        advanced: dict[str, int] = {}
        for name, operator in self.operators.items():
            node = operator.node(limits.forget_hosts_after)
            nodes[name] = node.muted() if name in mute else node
            if operator.advanced_to is not None and not operator.removed:
                advanced[name] = operator.advanced_to
        return low_watermarks(nodes, self.order(), advanced)

    def remembered(self, limits: Limits) -> LowWatermarks:
        """All low watermarks for readers: none below earlier answers."""
        nodes = {name: o.node(limits.forget_hosts_after) for name, o in self.operators.items()}
        outputs = {name: latest(o.told_output, o.advanced_to) for name, o in self.operators.items()}
        inputs = {name: o.told_input for name, o in self.operators.items()}
        return low_watermarks(nodes, self.order(), outputs, inputs, self.told)

    def source(self, name: str) -> Operator:
        """A source by its name.

        Raises:
            RefusedError: there is none.
        """
        operator = self.operators.get(name)
        if operator is None or operator.removed or not operator.is_source:
            raise RefusedError(f"{name!r} is no source of {self.name!r}")
        return operator

    def newest(self) -> int:
        """The greatest known event time of the application; 0 if there is none."""
        reporters = [r for o in self.operators.values() for r in o.reporters.values()]
        times = [reporter.hosts.counted().newest() for reporter in reporters]
        times += [reporter.stamps for reporter in reporters]
        return max((time for time in times if time is not None), default=0)
