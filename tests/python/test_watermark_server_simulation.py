"""Jobs that come, crash, restart, change what they read and meet, against a model of who may be told what.

    TAILRACE_SCHEDULES=100000 pytest tests/python/test_watermark_server_simulation.py

is the long form; TAILRACE_SEED chooses others. A schedule that fails names its seed, which is all it takes to
run it again. Most run the rules in memory; each tenth has two servers on one database with clocks apart.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from simulated_jobs import HOSTS, Job, Model, Told
from simulated_servers import SCHEDULES, InMemory, OnDatabase, Servers
from tailrace.server.identity import CONFLICT, REPLACED
from tailrace.server.reporter import LIVE_FOR, RefusedError
from tailrace.server.times import SECOND
from watermark_ledgers import Ledgers
from watermark_servers import T, sink

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.campaign

SEED = int(os.environ.get("TAILRACE_SEED", "1"))
PARTS = ["kafka:k/t/0", "kafka:k/t/1", "kafka:k/t/2", "kafka:k/t"]
JUMPS = [n * SECOND for n in (-3_600, -90, 0, 90, 3_600)]


class World(Model):
    """Schedules: what jobs do, and when."""

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
