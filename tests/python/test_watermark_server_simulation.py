"""Jobs that come, crash, restart, change what they read and meet, against a model of who may be told what.

    TAILRACE_SCHEDULES=100000 pytest tests/python/test_watermark_server_simulation.py

is the long form; TAILRACE_SEED chooses others. A schedule that fails names its seed, which is all it takes to
run it again. Most run the rules in memory; each tenth has two servers on one database with clocks apart.
"""

from __future__ import annotations

import itertools
import os
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from tailrace.server import answering, decisions, identity, intake
from tailrace.server.identity import CONFLICT, REPLACED
from tailrace.server.protocol import OverrideRequest, Report
from tailrace.server.reporter import LIVE_FOR, RefusedError
from tailrace.server.state import App, Limits
from tailrace.server.times import SECOND, Moment
from tailrace.server.topology import latest, smallest
from watermark_ledgers import Ledgers
from watermark_servers import T, sink, source

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from tailrace.server.answers import ReportAnswer
    from tailrace.server.reporter import Client

pytestmark = pytest.mark.campaign

SCHEDULES = int(os.environ.get("TAILRACE_SCHEDULES", "700"))
SEED = int(os.environ.get("TAILRACE_SEED", "1"))
HOSTS = ["h0", "h1", "h2"]
PARTS = ["kafka:k/t/0", "kafka:k/t/1", "kafka:k/t/2", "kafka:k/t"]
LIMITS = Limits(apps=max(1_000, SCHEDULES))
JUMPS = [n * SECOND for n in (-3_600, -90, 0, 90, 3_600)]


class Runs:
    """The journal of the rules: it keeps what they ask back, former runs."""

    def __init__(self) -> None:
        self.former: set[tuple[str, str]] = set()

    def was_replaced(self, _: App, client: Client, run: str) -> bool:
        return (client.name, run) in self.former

    def has_former_runs(self, _: App, client: Client) -> bool:
        return any(name == client.name for name, _ in self.former)

    def replace_run(self, _: App, client: Client, run: str) -> None:
        del run
        self.former.add((client.name, client.run))

    def drop_client(self, _: App, client: Client) -> None:
        self.former = {(name, run) for name, run in self.former if name != client.name}

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  all that is only written
        return lambda *_, **__: None


class Servers(Protocol):
    """Where reports go."""

    count: int

    def take(self, server: int, moment: Moment, reports: Sequence[Report]) -> list[ReportAnswer | Exception]:
        """Reports that one server takes together."""

    def remove(self, server: int, moment: Moment, client: str) -> None:
        """A person removes a client."""

    def low(self, server: int) -> int | None:
        """What readers are told."""


class InMemory:
    """The rules alone, one report after another."""

    count = 1

    def __init__(self) -> None:
        self.app = App(1, "app")
        self.journal = Runs()

    def take(self, _: int, moment: Moment, reports: Sequence[Report]) -> list[ReportAnswer | Exception]:
        found: list[ReportAnswer | Exception] = []
        for report in reports:
            try:
                intake.check(self.app, report, moment, LIMITS, self.journal)
            except RefusedError as error:
                if identity.is_turned_away(self.app, report, error, self.journal):
                    identity.turn_away(self.app, report, moment, self.journal)
                found.append(error)
                continue
            intake.take_in(self.app, report, moment, LIMITS, self.journal)
            found.append(answering.answer_all(self.app, {0: report}, moment, LIMITS, self.journal)[0])
        return found

    def remove(self, _: int, moment: Moment, client: str) -> None:
        decisions.decide(self.app, removal(client), moment, LIMITS, self.journal)

    def low(self, _: int) -> int | None:
        self.app.told = self.app.remembered(LIMITS).application
        return self.app.told


class OnDatabase:
    """Two servers of one database."""

    count = 2

    def __init__(self, ledgers: Ledgers) -> None:
        self.clock = ledgers.clock
        self.ledgers = [ledgers.make(LIMITS) for _ in range(self.count)]
        for ledger in self.ledgers:
            ledger.load()
        self.name = ""

    def take(self, server: int, moment: Moment, reports: Sequence[Report]) -> list[ReportAnswer | Exception]:
        self.clock.now, self.clock.tick = moment.at, moment.tick
        return self.ledgers[server].report([(self.name, report) for report in reports])

    def remove(self, server: int, moment: Moment, client: str) -> None:
        self.clock.now, self.clock.tick = moment.at, moment.tick
        self.ledgers[server].override(self.name, removal(client))

    def low(self, server: int) -> int | None:
        app = self.ledgers[server].app(self.name)
        return None if app is None else app.remembered(LIMITS).application


def removal(client: str) -> OverrideRequest:
    given = {"action": "remove", "client": client, "name": "dana", "reason": "it is gone"}
    return OverrideRequest.model_validate(given)


@dataclass
class Told:
    """The model's view of one reporter of the source: plain tables, and no cleverness."""

    reads: frozenset[str] | None
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


class World:
    """Servers, the jobs that report to them, and what the model makes of them."""

    def __init__(self, seed: int, servers: Servers) -> None:
        self.random = random.Random(seed)
        self.servers = servers
        self.jumps = [0] * servers.count
        self.tick = 0
        self.names = 0
        self.jobs: list[Job] = []
        self.zombies: list[Job] = []
        self.told: dict[str, Told] = {}
        # What those were told whose sink has reported, and no source.
        self.begun: dict[str, Told] = {}
        # Who was heard of: how often, and whether it has left; and what each server knows of that, and when.
        self.heard: dict[str, tuple[int, bool]] = {}
        self.seen: list[dict[str, tuple[int, int]]] = [{} for _ in range(servers.count)]
        self.runs: dict[str, str] = {}
        self.former: set[tuple[str, str]] = set()
        self.low: int | None = None
        self.has_operators = self.random.random() < 0.3

    def run(self, steps: int) -> None:
        actions = {
            self.start: 3,
            self.land: 1,
            self.report: 14,
            self.restart: 2,
            self.crash: 1,
            self.leave: 1,
            self.succeed: 1,
            self.remove: 1,
            self.zombie: 2,
            self.clock: 1,
        }
        for _ in range(steps):
            self.tick += self.random.choice([0, SECOND, 5 * SECOND, 30 * SECOND, LIVE_FOR])
            self.random.choices(list(actions), list(actions.values()))[0]()

    def start(self) -> None:
        """A new query, with a checkpoint of its own."""
        if len(self.jobs) < 4:
            reads = None if self.random.random() < 0.1 else self.some_reads()
            self.jobs.append(self.new_job(reads))

    def land(self) -> None:
        """A new query whose sink reports before its source does; refused, it is started again."""
        if len(self.jobs) >= 4 or self.has_operators:
            return
        job = self.new_job(self.some_reads())
        for _ in range(self.random.choice([1, 1, 2])):
            server = self.some_server()
            body = self.body(job, {})
            groups = dict.fromkeys(map(str, range(job.shape)), 0)
            body["operators"] = [sink(groups, key_groups=job.shape)]
            (begun,) = self.take(server, [body])
            assert not isinstance(begun, Exception), begun
            self.jobs.append(job)
            server = self.some_server()
            (answer,) = self.take(server, [self.body(job, {})])
            told = begun.operators["sink"].output_low_watermark
            self.begun[job.client] = Told(job.reads, sink_output=told, whole=begun.global_low_watermark)
            self.judge(server, job, {}, answer)
            if job in self.jobs:
                return
            # Nothing of it is left; what it sends late isn't taken either.
            (late,) = self.take(self.some_server(), [body])
            assert isinstance(late, RefusedError)
            assert late.code == CONFLICT
            self.names += 1
            job.run = f"run-{self.names}"

    def some_reads(self) -> frozenset[str]:
        return frozenset(self.random.sample(PARTS, self.random.choice([1, 1, 2])))

    def some_order(self) -> tuple[str, ...]:
        if not self.has_operators:
            return ()
        return ("b", "a") if self.random.random() < 0.3 else ("a", "b")

    def new_job(self, reads: frozenset[str] | None) -> Job:
        self.names += 1
        roster = self.random.choice([[], HOSTS[:2], HOSTS])
        at = dict.fromkeys(HOSTS, T + self.random.randrange(20))
        shape, chunks = self.random.randint(1, 3), self.random.choice([0, 0, 1, 2])
        order = self.some_order()
        return Job(f"q{self.names}", f"run-{self.names}", reads, roster, shape, at, order, chunks)

    def restart(self) -> None:
        """The same checkpoint: a new run, which may read other partitions, in another shape."""
        if not self.jobs:
            return
        job = self.random.choice(self.jobs)
        self.zombies.append(Job(**{**job.__dict__, "at": dict(job.at)}))
        self.names += 1
        job.run = f"run-{self.names}"
        job.shape = self.random.randint(1, 3)
        job.order = self.some_order()
        if self.random.random() < 0.3 and job.reads is not None:
            job.reads = self.some_reads()
        if self.random.random() < 0.3:
            job.roster = self.random.choice([[], HOSTS[:2], HOSTS])
            job.rosters += 1
            job.chunks = self.random.choice([0, 1, 2])

    def crash(self) -> None:
        """A query ends without a word."""
        if self.jobs:
            self.jobs.remove(self.random.choice(self.jobs))

    def leave(self) -> None:
        """A query ends well."""
        if self.jobs:
            job = self.random.choice(self.jobs)
            self.jobs.remove(job)
            if self.runs.get(job.client) == job.run:
                self.send(job, {}, leaving=True, with_operators=False)

    def succeed(self) -> None:
        """A query ends well, and its successor reports at once: one transaction has both."""
        if not self.jobs:
            return
        old = self.random.choice(self.jobs)
        if self.runs.get(old.client) != old.run or old.client not in self.told:
            return
        self.jobs.remove(old)
        new = self.new_job(old.reads)
        new.order = old.order
        server = self.some_server()
        left = self.body(old, {}, leaving=True, with_operators=False)
        first = self.body(new, {"h0": new.at["h0"]})
        one, other = self.take(server, [left, first])
        self.hear(server, old, leaving=True)
        self.expect_whole(old, one)
        self.judge(server, new, {"h0": new.at["h0"]}, other)
        if self.runs.get(new.client) == new.run:
            self.jobs.append(new)

    def remove(self) -> None:
        """A person removes a query that has gone; while it may live, its first report isn't cut."""
        gone = [name for name in self.told if name not in {job.client for job in self.jobs}]
        if gone:
            name, server = self.random.choice(gone), self.some_server()
            self.learn(server)
            is_cut = self.lives(name, server) and not self.told[name].has_roster
            try:
                self.servers.remove(server, self.moment(server), name)
            except RefusedError:
                assert is_cut
            else:
                assert not is_cut
                self.drop(name)

    def zombie(self) -> None:
        """A run that was replaced speaks once more."""
        spoken = [z for z in self.zombies if z.client in self.told and (z.client, z.run) in self.former]
        if spoken:
            server = self.some_server()
            body = self.body(self.random.choice(spoken), {"h0": T + 10_000})
            (refusal,) = self.take(server, [body])
            assert isinstance(refusal, RefusedError)
            assert refusal.code == REPLACED

    def clock(self) -> None:
        """A server's clock is set."""
        self.jumps[self.some_server()] = self.random.choice(JUMPS)

    def report(self) -> None:
        """A query has read some more."""
        if not self.jobs:
            return
        job = self.random.choice(self.jobs)
        for host in self.random.sample(HOSTS, self.random.randint(0, 3)):
            job.at[host] += self.random.randrange(10)
            self.send(job, {host: job.at[host]})
            if job not in self.jobs:
                return
        if self.random.random() < 0.2:
            self.send(job, {}, with_operators=False)

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
        self.seen[server][job.client] = (times, self.tick)
        before = self.runs.get(job.client)
        if before not in {None, job.run}:
            self.former.add((job.client, str(before)))
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
        operators = [
            sink(lows, key_groups=job.shape, upstreams=[chain[-1]]),
            *({"operator": o, "kind": "operator", "upstreams": [up]} for up, o in itertools.pairwise(chain)),
            source(progress, roster=roster, roster_version=f"r{job.rosters}", reads=reads),
        ]
        return {
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
        mine.reads, mine.order = job.reads, job.order
        if job.chunks:
            # What was known of a roster of this very version stays.
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
        """What a client is told of the application: nothing before it has read anything."""
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
            times.append(min(read) if read else None)
        return smallest(times)


@pytest.mark.parametrize("part", range(4))
def test_schedules_of_jobs_agree_with_the_model(part: int) -> None:
    for schedule in range(part, SCHEDULES, 4):
        play(schedule, InMemory())


def test_two_servers_of_one_database_agree_with_the_model(tmp_path: Path) -> None:
    with Ledgers(f"sqlite:///{tmp_path / 'w.db'}") as ledgers:
        servers = OnDatabase(ledgers)
        for schedule in range(0, SCHEDULES, 10):
            servers.name = f"app-{schedule}"
            play(schedule, servers)


def play(schedule: int, servers: Servers) -> None:
    seed = SEED * 1_000_003 + schedule
    try:
        World(seed, servers).run(steps=40)
    except BaseException:
        print(f"the schedule of seed {seed}")
        raise
