"""Hosts for readers: where each one stands, and a page of those asked for, the slowest first."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import nsmallest
from typing import TYPE_CHECKING

import numpy as np

from tailrace.server import answers
from tailrace.server.times import NEVER
from tailrace.server.topology import held_by

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tailrace.server.counted import Host
    from tailrace.server.state import App, Limits, Operator


_QUERIES = 3


@dataclass(frozen=True)
class Asked:
    """Which hosts are asked for.

    Attributes:
        operator: those of one source; None: of all.
        search: a part of the name, in any case; empty: any.
        state: those in one state; None: in any.
        limit: the most that one page has.
        offset: how many are left out before.
    """

    operator: str | None = None
    search: str = ""
    state: answers.Standing | None = None
    limit: int = 20
    offset: int = 0


def host_page(app: App, asked: Asked, now: int, limits: Limits) -> answers.HostPage:
    """Hosts of one source, or of all, the slowest first.

    Args:
        app: the application.
        asked: which ones.
        now: microseconds since 1970-01-01 UTC.
        limits: the server's.

    Raises:
        RefusedError: the operator is no source.
    """
    of_all = [o for o in app.present().values() if o.is_source]
    chosen = of_all if asked.operator is None else [app.source(asked.operator)]
    low = app.remembered(limits)
    holders = held_by(app.upstreams(), low)
    sources = {o.name: _Source(o, low.outputs[o.name], holds=o.name in holders) for o in chosen}
    end = asked.offset + asked.limit
    masks = {name: source.chosen(asked) for name, source in sources.items()}
    found = [
        (name, host) for name, source in sources.items() for host in source.hosts.slowest(end, masks[name])
    ]
    first = nsmallest(end, found, key=lambda row: (_progress(row[1]), row[0], row[1].name))
    return answers.HostPage(
        total=sum(
            len(source.hosts) if (mask := masks[name]) is None else int(np.count_nonzero(mask))
            for name, source in sources.items()
        ),
        hosts=[
            answers.HostState(
                operator=name,
                host=host.name,
                progress=host.progress,
                lag=None if host.progress is None else now - host.progress,
                queries=least_read(app.operators[name], host.name),
                state=sources[name].standing(host),
            )
            for name, host in first[asked.offset :]
        ],
    )


def least_read(source: Operator, host: str) -> list[str]:
    """The queries that have read least of a host that they know: their names, or else their ids."""
    read: dict[str, int] = {}
    for client, reporter in source.reporters.items():
        if reporter.hosts.is_known(host):
            read[reporter.client.query or client] = reporter.hosts.read_up_to(host)
    least = min(read.values(), default=NEVER)
    return sorted(name for name, time in read.items() if time == least)[:_QUERIES]


class _Source:
    """A source with what its hosts are compared with.

    Args:
        source: the operator.
        output: its output low watermark.
        holds: whether the global low watermark waits for it, and for nothing upstream of it.
    """

    def __init__(self, source: Operator, output: int | None, *, holds: bool) -> None:
        self.hosts = source.hosts()
        rule = self.hosts.low_watermark(source.completeness())
        self._rule = NEVER if rule is None else rule
        told = NEVER if output is None else output
        self._passed = max(self._rule, told)
        _, fastest = self.hosts.extent()
        # Where all hosts are level none holds the others back. Where the output is below the rule, something
        # else holds it: stamps, or a roster that is missing.
        self._is_held = holds and self._rule <= told and fastest is not None and fastest > self._rule

    def chosen(self, asked: Asked) -> NDArray[np.bool_] | None:
        """The hosts that are asked for; None: all."""
        mask = None if asked.state is None else self._standing_at(asked.state)
        if not asked.search:
            return mask
        named = self.hosts.named_like(asked.search)
        return named if mask is None else named & mask

    def standing(self, host: Host) -> answers.Standing:
        """The state of one host."""
        if host.excluded:
            return "excluded"
        if host.idle:
            return "idle"
        if not host.counts:
            return "not in roster"
        if self._is_held and _progress(host) == self._rule:
            return "holds"
        return "behind" if _progress(host) < self._passed else "passed"

    def _standing_at(self, state: answers.Standing) -> NDArray[np.bool_]:
        """All hosts in a state; it agrees with `standing`."""
        hosts = self.hosts
        if state == "excluded":
            return hosts.is_excluded
        if state == "idle":
            return hosts.is_idle
        if state == "not in roster":
            return ~(hosts.counts | hosts.is_idle | hosts.is_excluded)
        holding: NDArray[np.bool_] = hosts.counts & (hosts.progress == self._rule) & self._is_held
        if state == "holds":
            return holding
        is_behind = hosts.progress < self._passed
        others: NDArray[np.bool_] = hosts.counts & ~holding & (is_behind if state == "behind" else ~is_behind)
        return others


def _progress(host: Host) -> int:
    return NEVER if host.progress is None else host.progress
