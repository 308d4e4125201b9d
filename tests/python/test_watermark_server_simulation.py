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
from tailrace.server.times import EARLIEST, SECOND
from tailrace.server.topology import latest
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
            self.back_up: 1,
            self.roll_back: 1,
            self.poll: 2,
            self.miss: 2,
            self.attend: 4,
            self.restart_server: 1,
        }
        for _ in range(steps):
            self.tick += self.random.choice([0, SECOND, 5 * SECOND, 30 * SECOND, LIVE_FOR])
            self.random.choices(list(actions), list(actions.values()))[0]()
        # In the end all that was read is there, and nobody's last answer is older than that.
        for job in self.jobs * 2:
            self.attend_to(job)

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
            groups = dict.fromkeys(map(str, range(job.shape)), EARLIEST if job.says_batches else 0)
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
        job = Job(f"q{self.names}", f"run-{self.names}", reads, roster, shape, at, order, chunks)
        job.logs, job.says_batches = self.random.choice(["", "", "web"]), self.random.random() < 0.8
        return job

    def restart(self) -> None:
        """The same checkpoint: a new run, which may read other partitions, in another shape."""
        if not self.jobs:
            return
        self.begin_again(self.random.choice(self.jobs))

    def begin_again(self, job: Job) -> None:
        self.zombies.append(Job(**{**job.__dict__, "at": dict(job.at), "read": dict(job.read)}))
        self.names += 1
        job.run = f"run-{self.names}"
        job.owed = {}
        job.shape = self.random.randint(1, 3)
        job.order = self.some_order()
        if self.random.random() < 0.3 and job.reads is not None:
            job.reads = self.some_reads()
        if self.random.random() < 0.3:
            job.roster = self.random.choice([[], HOSTS[:2], HOSTS])
            job.rosters += 1
            job.chunks = self.random.choice([0, 1, 2])
        if self.random.random() < 0.1:
            job.says_batches = not job.says_batches  # it is started with another release
        if job.says_batches and self.random.random() < 0.7:
            # The first report of a start has all hosts; or the server was away.
            self.send(job, dict(job.read))

    def back_up(self) -> None:
        """Somebody copies a checkpoint."""
        if self.jobs:
            self.random.choice(self.jobs).back_up()

    def roll_back(self) -> None:
        """Somebody restores a checkpoint from a copy, and starts the query again."""
        found = [job for job in self.jobs if job.copies and job.says_batches]
        if found:
            job = self.random.choice(found)
            job.restore(self.random.choice(job.copies))
            job.owed = {}
            if job.client in self.told and self.random.random() < 0.5:
                # The thread that closes windows is first.
                self.begin_again_unheard(job)
                self.poll_of(job)
            job.rosters += 1
            job.chunks = 0
            self.names += 1
            job.run = f"run-{self.names}"
            self.send(job, dict(job.read))

    def begin_again_unheard(self, job: Job) -> None:
        self.names += 1
        job.run = f"run-{self.names}"

    def poll(self) -> None:
        """A quiet query, whose sink asks whether windows close."""
        found = [job for job in self.jobs if job.client in self.told and job.says_batches]
        if found:
            self.poll_of(self.random.choice(found))

    def poll_of(self, job: Job) -> None:
        server = self.some_server()
        body = self.body(job, {})
        del body["batches"]
        groups = self.told[job.client].groups
        body["operators"] = [
            sink(groups, key_groups=len(groups), upstreams=body["operators"][0]["upstreams"])
        ]
        if self.told[job.client].shape != len(groups) or self.told[job.client].order != job.order:
            return
        (answer,) = self.take(server, [body])
        self.hear(server, job, leaving=False)
        assert not isinstance(answer, Exception), answer
        mine = self.told[job.client]
        found = (answer.operators["sink"].output_low_watermark, answer.global_low_watermark)
        if not mine.begun:
            assert found == (None, None), "nobody knows whether it has gone back"
            # It is remembered for a run that hasn't.
            mine.whole = latest(mine.whole, self.sink_low()) if mine.progress else mine.whole
            return
        mine.sink_output = latest(mine.sink_output, self.sink_low() if mine.progress else None)
        assert found[0] == mine.sink_output
        self.expect_whole(job, answer)

    def miss(self) -> None:
        """A query reads some more while no server answers."""
        if self.jobs:
            job, host = self.random.choice(self.jobs), self.random.choice(HOSTS)
            job.at[host] += self.random.randrange(10)
            job.read[host] = job.owed[host] = job.at[host]
            job.batches += 1

    def attend(self) -> None:
        """A quiet query sends again what was missed, or asks how far its source is."""
        if self.jobs:
            self.attend_to(self.random.choice(self.jobs))

    def attend_to(self, job: Job) -> None:
        if job.client in self.told and self.runs.get(job.client) == job.run:
            owed, job.owed = job.owed, {}
            self.send(job, owed)

    def restart_server(self) -> None:
        """A server restarts, between any two reports."""
        server = self.some_server()
        moment = self.moment(server)
        if self.servers.restart(server, moment):
            self.seen[server] = {
                name: (times, moment.tick - max(0, moment.at - self.heard_at[name]))
                for name, (times, _) in self.heard.items()
            }

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
        new.read["h0"], new.batches = new.at["h0"], 1
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
            job.read[host] = job.at[host]
            job.batches += 1
            # What the former start's last micro-batches had read comes with the first report.
            mine = self.told.get(job.client)
            whole = mine is not None and self.runs.get(job.client) != job.run and job.says_batches
            owed, job.owed = job.owed, {}
            self.send(job, dict(job.read) if whole else {**owed, host: job.at[host]})
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
