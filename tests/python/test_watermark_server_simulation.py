"""Jobs that come, crash, restart, change what they read and meet, against a model of who may be told what.

    TAILRACE_SCHEDULES=100000 pytest tests/python/test_watermark_server_simulation.py

is the long form; TAILRACE_SEED chooses others. A schedule that fails names its seed, which is all it takes to
run it again. The rules run in memory: what the database does of them the other tests look at.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from tailrace.server import answering, intake
from tailrace.server.clock import SECOND, Moment
from tailrace.server.identity import CONFLICT, REPLACED
from tailrace.server.protocol import Report
from tailrace.server.reporter import LIVE_FOR, RefusedError
from tailrace.server.state import App, Limits
from tailrace.server.topology import latest, smallest
from watermark_servers import T, sink, source

if TYPE_CHECKING:
    from collections.abc import Collection

    from tailrace.server.reporter import Client

SCHEDULES = int(os.environ.get("TAILRACE_SCHEDULES", "700"))
SEED = int(os.environ.get("TAILRACE_SEED", "1"))
HOSTS = ["h0", "h1", "h2"]
PARTS = ["kafka:k/t/0", "kafka:k/t/1", "kafka:k/t/2", "kafka:k/t"]
LIMITS = Limits()


class Runs:
    """The journal of the rules: it keeps what they ask back, former runs."""

    def __init__(self) -> None:
        self.former: set[tuple[str, str]] = set()

    def was_replaced(self, _: App, client: Client, run: str) -> bool:
        return (client.name, run) in self.former

    def replace_run(self, _: App, client: Client, run: str) -> None:
        del run
        self.former.add((client.name, client.run))

    def drop_client(self, _: App, client: Client) -> None:
        self.former = {(name, run) for name, run in self.former if name != client.name}

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  all that is only written
        return lambda *_, **__: None


@dataclass
class Told:
    """The model's view of one reporter of the source: plain tables, and no cleverness."""

    reads: frozenset[str] | None
    progress: dict[str, int] = field(default_factory=dict)
    roster: set[str] = field(default_factory=set)
    groups: dict[str, int] = field(default_factory=dict)
    shape: int = 0
    output: int | None = None
    sink_output: int | None = None


@dataclass
class Job:
    """A query: its checkpoint names it, each start is a run."""

    client: str
    run: str
    reads: frozenset[str] | None
    roster: list[str]
    shape: int
    at: dict[str, int]


class World:
    """A server, the jobs that report to it, and what the model makes of them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.app = App(1, "app")
        self.journal = Runs()
        self.jump = 0
        self.tick = 0
        self.names = 0
        self.jobs: list[Job] = []
        self.zombies: list[Job] = []
        self.told: dict[str, Told] = {}
        self.heard: dict[str, tuple[int, bool]] = {}
        self.runs: dict[str, str] = {}
        self.low: int | None = None

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.tick += self.random.choice([0, SECOND, 5 * SECOND, 30 * SECOND, LIVE_FOR])
            action = self.random.choices(
                [self.start, self.report, self.restart, self.crash, self.leave, self.zombie, self.clock],
                [3, 14, 2, 1, 1, 2, 1],
            )[0]
            action()

    def start(self) -> None:
        """A new query, with a checkpoint of its own."""
        if len(self.jobs) >= 4:
            return
        self.names += 1
        reads = (
            None
            if self.random.random() < 0.1
            else frozenset(self.random.sample(PARTS, self.random.randint(1, 2)))
        )
        roster = self.random.choice([[], HOSTS[:2], HOSTS])
        at = dict.fromkeys(HOSTS, T + self.random.randrange(20))
        shape = self.random.randint(1, 3)
        self.jobs.append(Job(f"q{self.names}", f"run-{self.names}", reads, roster, shape, at))

    def restart(self) -> None:
        """The same checkpoint: a new run, which may read other partitions, in another shape."""
        if not self.jobs:
            return
        job = self.random.choice(self.jobs)
        self.zombies.append(Job(job.client, job.run, job.reads, job.roster, job.shape, dict(job.at)))
        self.names += 1
        job.run = f"run-{self.names}"
        job.shape = self.random.randint(1, 3)
        if self.random.random() < 0.3 and job.reads is not None:
            job.reads = frozenset(self.random.sample(PARTS, self.random.randint(1, 2)))

    def crash(self) -> None:
        """A query ends without a word."""
        if self.jobs:
            self.jobs.remove(self.random.choice(self.jobs))

    def leave(self) -> None:
        """A query ends well."""
        if self.jobs:
            job = self.random.choice(self.jobs)
            self.jobs.remove(job)
            if job.client in self.runs and self.runs[job.client] == job.run:
                self.send(job, {}, leaving=True, with_operators=False)

    def zombie(self) -> None:
        """A run that was replaced speaks once more."""
        replaced = [z for z in self.zombies if self.runs.get(z.client) not in {None, z.run}]
        spoken = [z for z in replaced if (z.client, z.run) in self.journal.former]
        if spoken:
            with pytest.raises(RefusedError) as refusal:
                self.tell(self.random.choice(spoken), {"h0": T + 10_000})
            assert refusal.value.code == REPLACED

    def clock(self) -> None:
        """The server's clock is set."""
        self.jump = self.random.choice([-3_600 * SECOND, 0, 3_600 * SECOND])

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
        if with_operators and self.conflicts(job):
            with pytest.raises(RefusedError) as refusal:
                self.tell(job, progress)
            assert refusal.value.code == CONFLICT
            self.jobs.remove(job)
            return
        answer = self.tell(job, progress, leaving=leaving, with_operators=with_operators)
        self.heard[job.client] = (self.tick, leaving)
        self.runs[job.client] = job.run
        if with_operators:
            self.expect(job, progress, answer)

    def conflicts(self, job: Job) -> bool:
        own = self.told.get(job.client)
        if job.reads is None or (own is not None and own.reads == job.reads):
            return False
        return any(self.lives(other) or self.has_more(other, job) for other in self.sharing(job))

    def has_more(self, other: str, job: Job) -> bool:
        """Whether another one has read what the job won't."""
        mine = job.reads or frozenset()
        theirs = self.told[other].reads or frozenset()
        return any(name not in mine and name.rpartition("/")[0] not in mine for name in theirs)

    def sharing(self, job: Job) -> list[str]:
        def share(one: Collection[str], other: Collection[str]) -> bool:
            return any(a == b or a.startswith(b + "/") or b.startswith(a + "/") for a in one for b in other)

        return [
            name
            for name, told in self.told.items()
            if name != job.client and told.reads is not None and share(job.reads or (), told.reads)
        ]

    def lives(self, client: str) -> bool:
        at, leaving = self.heard[client]
        return not leaving and self.tick - at < LIVE_FOR

    def tell(
        self, job: Job, progress: dict[str, int], *, leaving: bool = False, with_operators: bool = True
    ) -> Any:  # noqa: ANN401  an answer
        moment = Moment(T + self.tick + self.jump, self.tick)
        lows = {str(n): min(job.at.values()) + n for n in range(job.shape)}
        reads = None if job.reads is None else sorted(job.reads)
        operators = [
            source(progress, roster=job.roster, reads=reads),
            sink(lows, key_groups=job.shape),
        ]
        body = {
            "client": job.client,
            "run": job.run,
            "leaving": leaving,
            "operators": operators if with_operators else [],
        }
        report = Report.model_validate(body)
        intake.check(self.app, report, moment, LIMITS, self.journal)
        intake.take_in(self.app, report, moment, LIMITS, self.journal)
        return answering.answer(self.app, report, self.app.computed(LIMITS), moment, LIMITS)

    def expect(self, job: Job, progress: dict[str, int], answer: Any) -> None:  # noqa: ANN401  an answer
        known = self.told.get(job.client)
        if known is None or known.reads != job.reads:
            for gone in self.sharing(job):
                assert not self.lives(gone)
                del self.told[gone]
        mine = self.told.setdefault(job.client, Told(job.reads))
        mine.reads, mine.roster = job.reads, set(job.roster)
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
        if output != mine.output:
            # It has rose: no host that this query has told of is behind it.
            own = [time for host, time in mine.progress.items() if host in self.counting()]
            assert output <= min(own, default=output)
        mine.output = output
        groups = [low for told in self.told.values() for low in told.groups.values()]
        held = smallest([computed, *groups])
        sunk = answer.operators["sink"].output_low_watermark
        assert sunk == latest(mine.sink_output, held)
        mine.sink_output = sunk
        told = self.app.remembered(LIMITS).application
        self.app.told = told
        assert told == latest(self.low, told), "readers are told less than before"
        self.low = told

    def counting(self) -> set[str]:
        named: set[str] = set()
        for told in self.told.values():
            named |= told.roster or told.progress.keys()
        return named

    def source_low(self) -> int | None:
        times = []
        for host in self.counting():
            read = [told.progress[host] for told in self.told.values() if host in told.progress]
            times.append(min(read) if read else None)
        return smallest(times)


@pytest.mark.parametrize("part", range(4))
def test_schedules_of_jobs_agree_with_the_model(part: int) -> None:
    for schedule in range(part, SCHEDULES, 4):
        seed = SEED * 1_000_003 + schedule
        try:
            World(seed).run(steps=40)
        except BaseException:
            print(f"the schedule of seed {seed}")
            raise
