"""Queries that name two servers of one PostgreSQL, each of which is killed again and again."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

import tailrace
from waiting import wait_for
from watermark_servers import ServerProcess, missing, postgres_binaries, run_postgres, running
from window_logs import Logs, name

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = pytest.mark.usefixtures("stopped_queries")

_BINARIES = postgres_binaries()
_STEPS = 36
_WINDOWS = range(0, 30, 10)
_LAST_STEPS = 6


@pytest.fixture
def postgres() -> Iterator[str]:
    if _BINARIES is None:
        missing("no PostgreSQL here: neither initdb and postgres on the PATH nor in /usr/lib/postgresql")
    with run_postgres(_BINARIES) as url:
        yield url


class Servers:
    """Two servers of one store, and a thread that kills them in turn.

    Attributes:
        kills: how many of them were killed.
    """

    def __init__(self, store: str) -> None:
        self.kills = 0
        self._store = store
        self._running: list[ServerProcess | None] = [ServerProcess(store), ServerProcess(store)]
        self._ports = [server.port for server in self._running if server is not None]
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._kill_in_turn)

    @property
    def urls(self) -> list[str]:
        """Of both, whether they run or not."""
        return [f"http://127.0.0.1:{port}" for port in self._ports]

    def start_killing(self) -> None:
        """Kills the first one, starts it again, kills the second one, and so on."""
        self._thread.start()

    def leave_the_second(self) -> None:
        """Ends that, with the first one dead and the second one alive."""
        self._done.set()
        self._thread.join()
        self._kill(0)
        self._start(1)

    def one_alive(self) -> ServerProcess:
        """One that runs."""
        return next(server for server in self._running if server is not None)

    def close(self) -> None:
        """Ends all."""
        self._done.set()
        if self._thread.is_alive():
            self._thread.join()
        for i in range(2):
            self._kill(i)

    def _kill_in_turn(self) -> None:
        i = 0
        while not self._done.wait(0.5):
            self._kill(i)
            self.kills += 1
            # The queries need the other one for a while.
            self._done.wait(0.5)
            self._start(i)
            i = 1 - i

    def _kill(self, i: int) -> None:
        server, self._running[i] = self._running[i], None
        if server is not None:
            server.kill()

    def _start(self, i: int) -> None:
        if self._running[i] is None:
            self._running[i] = ServerProcess(self._store, port=self._ports[i])


class World:
    """Two jobs that land windows, and one that reads hosts each of which logs once."""

    def __init__(self, spark: SparkSession, root: Path, servers: Servers) -> None:
        self.app = root.name
        self.servers = servers
        at: dict[str, Any] = {"server": servers.urls, "app": self.app}
        self.jobs = [
            Logs(
                spark,
                root / job,
                source={"operator": f"{job}/source", **at},
                operator=f"{job}/sink",
                **{**at, "server": ",".join(reversed(servers.urls))},
            )
            for job in ("clicks", "views")
        ]
        once = {"hosts": None, "operator": "once", **at, "app": f"{self.app}-once"}
        self.once = Logs(spark, root / "once", source=once)
        self.queries: list[StreamingQuery] = [job.start() for job in self.jobs]
        checkpoint = str(root / "once-checkpoint")
        writer = self.once.waiting().writeStream.format("noop").option("checkpointLocation", checkpoint)
        self.queries.append(writer.start())

    def step(self, number: int) -> None:
        """All read a file more."""
        for job in self.jobs:
            job.add(("a", number), ("b", number + 0.5), ("a", number + 0.5))
        self.once.add((f"host-{number}", number))
        for query in self.queries:
            query.processAllAvailable()

    def ledger(self) -> dict[str, Any]:
        """All that is the same whatever happens to the servers, when all windows have closed."""
        for job in self.jobs:
            for second in _WINDOWS:
                wait_for(partial(job.marker, second), f"window {second} closes", 120)
        server = self.servers.one_alive()
        found: dict[str, Any] = {}
        for app in (self.app, f"{self.app}-once"):
            hosts = server.request("GET", f"/v1/apps/{app}/hosts?limit=1000")[1]["hosts"]
            kind = app.removeprefix(self.app)
            found[f"hosts{kind}"] = sorted((h["operator"], h["host"], h["progress"]) for h in hosts)
            state = server.request("GET", f"/v1/apps/{app}")[1]
            found[f"low{kind}"] = state["global_low_watermark"]
            found[f"reporters{kind}"] = {o["operator"]: len(o["reporters"]) for o in state["topology"]}
        reported = wait_for(self._windows, "the server has heard of all windows", 120)
        found["windows"] = sorted((w["operator"], *(w[key] for key in _REPORTED)) for w in reported)
        for job in self.jobs:
            found[job.root.name] = [(job.rows(name(s)), (job.marker(s) or {})["rows"]) for s in _WINDOWS]
            found[f"{job.root.name} late"] = job.rows("_late")
        return found

    def _windows(self) -> list[dict[str, Any]] | None:
        page = self.servers.one_alive().request("GET", f"/v1/apps/{self.app}/windows?limit=1000")[1]
        found: list[dict[str, Any]] = page["windows"]
        return found if len(found) >= len(_WINDOWS) * len(self.jobs) else None


_REPORTED = ("start", "end", "expected", "passed", "missing", "late_rows")


@pytest.mark.campaign
def test_servers_that_are_killed_in_turn_lose_nothing(
    spark: SparkSession, tmp_path: Path, postgres: str
) -> None:
    ledgers = []
    for kind in ("calm", "killed"):
        servers = Servers(postgres)
        try:
            (tmp_path / kind).mkdir()
            world = World(spark, tmp_path / kind, servers)
            for number in range(_STEPS):
                if kind == "killed" and number == 1:
                    servers.start_killing()
                if kind == "killed" and number == _STEPS - _LAST_STEPS:
                    servers.leave_the_second()
                world.step(number)
            ledgers.append(world.ledger())
            for query in world.queries:
                assert query.exception() is None
                query.stop()
            print(f"{kind}: {servers.kills} kills")
            assert kind == "calm" or servers.kills >= 3
        finally:
            servers.close()
    calm, killed = ledgers
    assert killed == calm
    assert len(calm["hosts-once"]) == _STEPS
    assert calm["windows"] == sorted(calm["windows"])
    # All rows, each once: three a second in each window.
    assert calm["clicks"] == calm["views"] == [(30, 30)] * len(_WINDOWS)
    assert (calm["clicks late"], calm["views late"]) == (0, 0)
    assert calm["reporters"] == {"clicks/source": 1, "clicks/sink": 1, "views/source": 1, "views/sink": 1}


@pytest.mark.slow
def test_servers_of_two_stores_end_the_query_with_both_names(spark: SparkSession, tmp_path: Path) -> None:
    with (
        running(f"sqlite:///{tmp_path / 'one.db'}") as one,
        running(f"sqlite:///{tmp_path / 'other.db'}") as other,
    ):
        at = {"server": [one.url, other.url], "app": "app"}
        logs = Logs(spark, tmp_path / "logs", source=at, **at)
        logs.add(("a", 1), ("b", 1))
        query = logs.start()
        with pytest.raises(StreamingQueryException) as ended:
            query.processAllAvailable()
        assert isinstance(ended.value, tailrace.TailraceWatermarkError)
        assert ended.value.condition == "TAILRACE_WATERMARK_STORES_DIFFER"
        assert one.url in str(ended.value)
        assert other.url in str(ended.value)
        assert logs.rows("window_start=*") == 0, "no row has landed"
        for server in (one, other):
            assert server.request("GET", "/v1/apps") == (200, [])
