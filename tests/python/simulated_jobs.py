"""Simulated jobs, and the model of what servers may tell them."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tailrace.server.identity import CONFLICT
from tailrace.server.protocol import Report
from tailrace.server.reporter import LIVE_FOR, RefusedError
from tailrace.server.times import Moment
from tailrace.server.topology import latest, smallest
from watermark_servers import T, sink, source

if TYPE_CHECKING:
    from collections.abc import Collection

    from simulated_servers import Servers
    from tailrace.server.answers import ReportAnswer

HOSTS = ["h0", "h1", "h2"]


@dataclass
class Told:
    """The model's view of one reporter of the source: plain tables, and no cleverness."""

    reads: frozenset[str] | None
    logs: str = ""
    batches: int | None = None
    begun: bool = True
    progress: dict[str, int] = field(default_factory=dict)
    roster: set[str] = field(default_factory=set)
    rosters: int = 0
    has_roster: bool = False
    groups: dict[str, int] = field(default_factory=dict)
    order: tuple[str, ...] = ()
    shape: int = 0
    output: int | None = None
    sink_output: int | None = None
    whole: int | None = None


@dataclass
class Job:
    """A query: its checkpoint names it, each start is a run."""

    client: str
    run: str
    reads: frozenset[str] | None
    roster: list[str]
    shape: int
    at: dict[str, int]
    order: tuple[str, ...]
    chunks: int
    rosters: int = 0
    logs: str = ""
    says_batches: bool = True
    batches: int = 0
    read: dict[str, int] = field(default_factory=dict)
    copies: list[tuple[int, dict[str, int], dict[str, int]]] = field(default_factory=list)
    owed: dict[str, int] = field(default_factory=dict)

    def back_up(self) -> None:
        """Somebody copies the checkpoint."""
        self.copies.append((self.batches, dict(self.read), dict(self.at)))

    def restore(self, copy: tuple[int, dict[str, int], dict[str, int]]) -> None:
        """Somebody puts a copy in the checkpoint's place."""
        self.batches, self.read, self.at = copy[0], dict(copy[1]), dict(copy[2])


class Model:
    """Servers, the jobs that report to them, and what each answer has to be."""

    def __init__(self, seed: int, servers: Servers) -> None:
        self.random = random.Random(seed)
        self.servers = servers
        self.jumps = [0] * servers.count
        self.tick = 0
        self.names = 0
        self.jobs: list[Job] = []
        self.zombies: list[Job] = []
        self.told: dict[str, Told] = {}
        # The answers to clients whose sink has reported, and no source.
        self.begun: dict[str, Told] = {}
        # For each client: how often it was heard of, whether it has left; then what each server knows of it.
        self.heard: dict[str, tuple[int, bool]] = {}
        self.heard_at: dict[str, int] = {}
        self.seen: list[dict[str, tuple[int, int]]] = [{} for _ in range(servers.count)]
        self.runs: dict[str, str] = {}
        self.former: set[tuple[str, str]] = set()
        self.low: int | None = None
        self.has_operators = self.random.random() < 0.3

    def send(
        self, job: Job, progress: dict[str, int], *, leaving: bool = False, with_operators: bool = True
    ) -> None:
        server = self.some_server()
        body = self.body(job, progress, leaving=leaving, with_operators=with_operators)
        (answer,) = self.take(server, [body])
        if with_operators:
            self.judge(server, job, progress, answer)
        else:
            self.hear(server, job, leaving=leaving)
            self.expect_whole(job, answer)

    def judge(
        self, server: int, job: Job, progress: dict[str, int], answer: ReportAnswer | Exception
    ) -> None:
        """Whether a report was to be refused, and what its answer has to say."""
        conflicts = self.conflicts(job, server)
        if conflicts or self.is_circle(job):
            assert isinstance(answer, RefusedError), answer
            assert answer.code == (CONFLICT if conflicts else None)
            if job in self.jobs:
                self.jobs.remove(job)
            return
        self.hear(server, job, leaving=False)
        self.expect(server, job, progress, answer)

    def some_server(self) -> int:
        return self.random.randrange(self.servers.count)

    def moment(self, server: int) -> Moment:
        # No two are the same by any of the clocks.
        self.tick += self.random.randrange(1, 1_000)
        return Moment(T + self.tick + self.jumps[server], self.tick)

    def take(self, server: int, bodies: list[dict[str, Any]]) -> list[ReportAnswer | Exception]:
        found = self.servers.take(server, self.moment(server), [Report.model_validate(b) for b in bodies])
        self.learn(server)
        return found

    def learn(self, server: int) -> None:
        """A server reads what others have heard, before it does anything; by its own clock that is now."""
        known = self.seen[server]
        for name, (times, _) in self.heard.items():
            if known.get(name, (0, 0))[0] != times:
                known[name] = (times, self.tick)

    def hear(self, server: int, job: Job, *, leaving: bool) -> None:
        times = self.heard.get(job.client, (0, False))[0] + 1
        self.heard[job.client] = (times, leaving)
        self.heard_at[job.client] = T + self.tick + self.jumps[server]
        self.seen[server][job.client] = (times, self.tick)
        before = self.runs.get(job.client)
        if before not in {None, job.run}:
            self.former.add((job.client, str(before)))
            mine = self.told.get(job.client)
            if mine is not None:
                mine.batches = mine.batches if job.says_batches else None
                mine.begun = mine.batches is None
        self.runs[job.client] = job.run

    def conflicts(self, job: Job, server: int) -> bool:
        own = self.told.get(job.client)
        if job.reads is None or (own is not None and own.reads == job.reads):
            return False
        return any(self.lives(other, server) or self.has_more(other, job) for other in self.sharing(job))

    def has_more(self, other: str, job: Job) -> bool:
        """Whether another one has read what the job won't."""
        mine = job.reads or frozenset()
        theirs = self.told[other].reads or frozenset()
        return any(name not in mine and name.rpartition("/")[0] not in mine for name in theirs)

    def is_circle(self, job: Job) -> bool:
        """Two operators that stay read from each other: those of who leaves don't count."""
        own = self.told.get(job.client)
        leave = set() if own is not None and own.reads == job.reads else set(self.sharing(job))
        stay = {t.order for name, t in self.told.items() if name != job.client and name not in leave}
        return len({*stay, job.order} - {()}) > 1

    def sharing(self, job: Job) -> list[str]:
        def share(one: Collection[str], other: Collection[str]) -> bool:
            return any(a == b or a.startswith(b + "/") or b.startswith(a + "/") for a in one for b in other)

        return [
            name
            for name, told in self.told.items()
            if name != job.client and told.reads is not None and share(job.reads or (), told.reads)
        ]

    def lives(self, client: str, server: int) -> bool:
        return not self.heard[client][1] and self.tick - self.seen[server][client][1] < LIVE_FOR

    def body(
        self, job: Job, progress: dict[str, int], *, leaving: bool = False, with_operators: bool = True
    ) -> dict[str, Any]:
        lows = {str(n): min(job.at.values()) + n for n in range(job.shape)}
        reads = None if job.reads is None else sorted(job.reads)
        roster = None if job.chunks else job.roster
        chain = ["source", *job.order]
        logs = {"logs": job.logs} if job.logs else {}
        operators = [
            sink(lows, key_groups=job.shape, upstreams=[chain[-1]]),
            *({"operator": o, "kind": "operator", "upstreams": [up]} for up, o in itertools.pairwise(chain)),
            source(progress, roster=roster, roster_version=f"r{job.rosters}", reads=reads, **logs),
        ]
        return {
            **({"version": 2, "batches": job.batches} if job.says_batches else {}),
            "client": job.client,
            "run": job.run,
            "leaving": leaving,
            "operators": operators if with_operators else [],
        }

    def drop(self, name: str) -> None:
        """A client that reports nothing any more is forgotten, its runs too."""
        del self.told[name]
        self.runs.pop(name, None)
        self.former = {(client, run) for client, run in self.former if client != name}

    def expect(
        self, server: int, job: Job, progress: dict[str, int], answer: ReportAnswer | Exception
    ) -> None:
        assert not isinstance(answer, Exception), answer
        known = self.told.get(job.client)
        if known is None or known.reads != job.reads:
            for gone in self.sharing(job):
                assert not self.lives(gone, server)
                self.drop(gone)
        begun = self.begun.pop(job.client, Told(job.reads))
        mine = self.told.setdefault(job.client, begun)
        before = mine.batches
        mine.reads, mine.order, mine.logs = job.reads, job.order, job.logs
        if job.says_batches:
            if not mine.begun and before is not None and job.batches < before:
                # What comes again counts for nothing.
                mine.progress, mine.groups, mine.roster, mine.has_roster = {}, {}, set(), False
                mine.output = mine.sink_output = mine.whole = None
                before = 0
            mine.batches, mine.begun = max(job.batches, before or 0), True
        if job.chunks:
            # A known roster of this version stays.
            mine.has_roster &= mine.rosters == job.rosters
            job.chunks -= 1
        else:
            mine.roster, mine.rosters, mine.has_roster = set(job.roster), job.rosters, True
        for host, time in progress.items():
            mine.progress[host] = max(mine.progress.get(host, 0), time)
        if mine.shape != job.shape:
            mine.groups.clear()
        mine.shape = job.shape
        for n in range(job.shape):
            low = min(job.at.values()) + n
            mine.groups[str(n)] = max(mine.groups.get(str(n), 0), low)
        self.expect_lows(server, job, mine, answer)

    def expect_lows(self, server: int, job: Job, mine: Told, answer: ReportAnswer) -> None:
        computed = self.source_low() if mine.progress else None
        output = answer.operators["source"].output_low_watermark
        assert output == latest(mine.output, computed)
        assert answer.need_roster == (not mine.has_roster)
        if output is not None and output != mine.output:
            # It has risen: no host that this query has told of is behind it.
            own = [time for host, time in mine.progress.items() if host in self.counting()]
            assert output <= min(own, default=output)
        mine.output = output
        sunk = answer.operators["sink"].output_low_watermark
        assert sunk == latest(mine.sink_output, self.sink_low() if mine.progress else None)
        mine.sink_output = sunk
        self.expect_whole(job, answer)
        told = self.servers.low(server)
        assert told == latest(self.low, told), "readers are told less than before"
        self.low = told

    def expect_whole(self, job: Job, answer: ReportAnswer | Exception) -> None:
        """Checks the global low watermark of an answer: none before the client has read anything."""
        assert not isinstance(answer, Exception), answer
        mine = self.told.get(job.client)
        if mine is None or not mine.progress:
            # Or what its sink was told, which was at the beginning.
            assert answer.global_low_watermark == (None if mine is None else mine.whole)
        else:
            mine.whole = latest(mine.whole, self.sink_low())
            assert answer.global_low_watermark == mine.whole

    def sink_low(self) -> int | None:
        groups = [low for told in self.told.values() for low in told.groups.values()]
        return smallest([self.source_low(), *groups])

    def counting(self) -> set[str]:
        named: set[str] = set()
        for told in self.told.values():
            named |= told.roster or told.progress.keys()
        return named

    def source_low(self) -> int | None:
        if not all(told.has_roster for told in self.told.values()):
            return None
        times = []
        for host in self.counting():
            read = [told.progress[host] for told in self.told.values() if host in told.progress]
            lacks = any(
                host in (told.roster or ()) and not self.is_read(host, told) for told in self.told.values()
            )
            times.append(min(read) if read and not lacks else None)
        return smallest(times)

    def is_read(self, host: str, told: Told) -> bool:
        """Whether a reporter has read a host, or another one of the same logs."""
        group = [t for t in self.told.values() if t.logs == told.logs] if told.logs else [told]
        return any(host in t.progress for t in group)
