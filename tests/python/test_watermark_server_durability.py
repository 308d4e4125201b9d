"""Kill -9 between and during reports, and several servers of one database."""

from __future__ import annotations

import random
import threading
from http.client import HTTPException
from typing import TYPE_CHECKING, Any

import pytest

import watermark_format_2
import watermark_format_4
from tailrace.server import postgresql
from tailrace.server.database import DatabaseError
from tailrace.server.opening import open_database
from tailrace.server.store import Store
from watermark_ledgers import Ledgers, low, report_of
from watermark_servers import (
    SECOND,
    ServerProcess,
    T,
    missing,
    postgres_binaries,
    report,
    run_postgres,
    running,
    sink,
    source,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tailrace.server.answers import ReportAnswer

HOSTS = [f"h{n}" for n in range(6)]
_BINARIES = postgres_binaries()


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    if _BINARIES is None:
        missing("no PostgreSQL here: neither initdb and postgres on the PATH nor in /usr/lib/postgresql")
    with run_postgres(_BINARIES) as url:
        yield url


class Client(threading.Thread):
    """One source that reports, repeats what wasn't acknowledged, and now and then what was.

    Attributes:
        acknowledged: the greatest progress by host that a server has answered with 200.
        went_back: answers below one before them.
    """

    def __init__(self, servers: list[ServerProcess | None], name: str, seed: int, steps: int) -> None:
        super().__init__()
        self.acknowledged: dict[str, int] = {}
        self.went_back: list[tuple[int | None, int | None]] = []
        self.failed_requests = 0
        self._servers = servers
        self._source = name
        self._random = random.Random(seed)
        self._steps = steps
        self._told: int | None = None

    def run(self) -> None:
        sent: list[dict[str, int]] = []
        for step in range(self._steps):
            hosts = self._random.sample(HOSTS, 3)
            sent.append({host: T + step * SECOND + self._random.randrange(SECOND) for host in hosts})
            for progress in self._random.sample(sent[-4:], min(len(sent), 2)) + sent[-1:]:
                self._send_until_acknowledged(progress)

    def _send_until_acknowledged(self, progress: dict[str, int]) -> None:
        while True:
            server = self._random.choice(self._servers)
            if server is None:
                continue
            body = report(source(progress, name=self._source, roster=HOSTS))
            try:
                status, answer = server.request("POST", "/v1/apps/app/reports", body)
            except (OSError, HTTPException):
                self.failed_requests += 1
                continue
            if status == 200:
                self._take(progress, answer["operators"][self._source]["output_low_watermark"])
                return
            assert status == 503, answer

    def _take(self, progress: dict[str, int], low: int | None) -> None:
        if self._told is not None and (low is None or low < self._told):
            self.went_back.append((self._told, low))
        self._told = low
        for host, time in progress.items():
            self.acknowledged[host] = max(self.acknowledged.get(host, 0), time)


def _kill_at_random(
    store: str, servers: list[ServerProcess | None], clients: list[Client], kills: int
) -> None:
    """Kills servers while the clients report, and starts others in their place."""
    rng = random.Random(1)
    for client in clients:
        client.start()
    done = threading.Event()
    for _ in range(kills):
        done.wait(rng.uniform(0.05, 0.4))
        i = rng.randrange(len(servers))
        victim, servers[i] = servers[i], None
        assert victim is not None
        victim.kill()
        servers[i] = ServerProcess(store)
    for client in clients:
        client.join()


def _check(server: ServerProcess, clients: list[Client]) -> None:
    for client in clients:
        assert client.went_back == []
        name = client._source
        status, page = server.request("GET", f"/v1/apps/app/hosts?operator={name}&limit=99")
        assert status == 200
        # All that was acknowledged, and as every report was in the end: exactly that.
        assert {host["host"]: host["progress"] for host in page["hosts"]} == client.acknowledged
        low = server.post(report(source({}, name=name)))["operators"][name]["output_low_watermark"]
        assert low == min(client.acknowledged.values())


def test_a_killed_server_keeps_all_acknowledged_reports(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'w.db'}"
    servers: list[ServerProcess | None] = [ServerProcess(store)]
    clients = [Client(servers, f"source-{n}", n, steps=70) for n in range(2)]
    try:
        _kill_at_random(store, servers, clients, kills=2)
        assert sum(client.failed_requests for client in clients) > 0
        assert servers[0] is not None
        _check(servers[0], clients)
    finally:
        for server in servers:
            if server is not None:
                server.kill()


@pytest.mark.slow
def test_two_servers_of_one_postgresql_have_no_leader(postgres: str) -> None:
    servers: list[ServerProcess | None] = [ServerProcess(postgres), ServerProcess(postgres)]
    clients = [Client(servers, f"source-{n}", n, steps=40) for n in range(3)]
    try:
        _kill_at_random(postgres, servers, clients, kills=3)
        for server in servers:
            assert server is not None
            _check(server, clients)
    finally:
        for server in servers:
            if server is not None:
                server.kill()


@pytest.mark.slow
def test_a_server_knows_the_reports_to_another_one(postgres: str) -> None:
    with running(postgres) as one, running(postgres) as other:
        one.post(report(source({"h1": T}, roster=["h1", "h2"]), sink({"0": T + 9})), app="two")
        # The other one knows roster, progress and topology of the first, and the first what follows.
        answer = other.post(report(source({"h2": T + 4})), app="two")
        assert (answer["operators"]["source"]["output_low_watermark"], answer["need_roster"]) == (T, False)
        answer = one.post(report(source({"h1": T + 7}), sink({})), app="two")
        assert answer["global_low_watermark"] == T + 4
        window = {"operator": "sink", "start": T - 9, "end": T, "expected": 2, "passed": 2}
        other.post(report(windows=[window]), app="two")
        status, override = other.request(
            "POST",
            "/v1/apps/two/overrides",
            {"action": "exclude", "operator": "source", "host": "h2", "name": "dana", "reason": "gone"},
        )
        assert status == 200
        assert one.request("GET", "/v1/apps/two/overrides")[1]["overrides"] == [override]
        assert len(one.request("GET", "/v1/apps/two/windows")[1]["windows"]) == 1
        assert one.request("GET", "/v1/apps/two/history")[1]["series"].keys() == {"", "sink", "source"}
        answer = one.post(report(source({})), app="two")
        assert answer["excluded_hosts"] == {"source": ["h2"]}
        assert answer["global_low_watermark"] == T + 7
        assert other.request("GET", "/v1/apps/two")[1]["global_low_watermark"] == T + 7


def test_a_server_that_vanishes_in_a_transaction_doesnt_keep_the_lock(
    postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that loses its power closes no connection, and PostgreSQL waits two hours for it."""
    monkeypatch.setattr(postgresql, "IDLE_SECONDS", 1)
    with Ledgers(postgres) as ledgers:
        one = ledgers.make()
        told = one.report([report_of("q", source({"h": T}), app="vanished")])
        assert not isinstance(told[0], Exception)
        stuck = open_database(postgres)
        answers: list[ReportAnswer | Exception] = []

        def vanish() -> None:
            with stuck.transaction():
                assert Store(stuck).lock("vanished")
                answers.extend(one.report([report_of("q", source({"h": T + 1}), app="vanished")]))

        with pytest.raises(DatabaseError):
            vanish()
        (answer,) = answers
        assert not isinstance(answer, Exception)
        assert low(answer) == T + 1


def test_a_lost_connection_is_a_503_and_comes_back(postgres: str) -> None:
    import psycopg  # noqa: PLC0415  only where there is a PostgreSQL

    with running(postgres) as server:
        server.post(report(source({"h": T})), app="lost")
        with psycopg.connect(postgres, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
            )
        body: Any = report(source({"h": T + 1}))
        status, answer = server.request("POST", "/v1/apps/lost/reports", body)
        assert status == 503
        assert answer["detail"].startswith("PostgreSQL: ")
        assert server.post(body, app="lost")["global_low_watermark"] == T + 1
        # The same for those that only read.
        with psycopg.connect(postgres, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
            )
        assert server.request("GET", "/v1/apps")[0] == 503
        assert server.request("GET", "/v1/apps")[0] == 200


@pytest.mark.slow
def test_a_postgresql_database_of_format_3_is_migrated(postgres: str) -> None:
    import psycopg  # noqa: PLC0415  only where there is a PostgreSQL

    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("CREATE DATABASE without_labels")
    old = postgres.replace("/postgres", "/without_labels")
    with running(old) as server:
        server.post(report(source({"h": T})))
        with psycopg.connect(old, autocommit=True) as connection:
            watermark_format_4.make(connection)
            connection.execute("ALTER TABLE reporter DROP COLUMN label")
            connection.execute("UPDATE format SET version = 3")
    for label in (None, "source (Kafka: clicks)"):
        with running(old) as server:
            assert server.request("GET", "/v1/apps/app")[1]["topology"][0]["label"] == label
            server.post(report(source({"h": T}, label="source (Kafka: clicks)")))
            with psycopg.connect(old, autocommit=True) as connection:
                assert connection.execute("SELECT version FROM format").fetchall() == [(5,)]


@pytest.mark.slow
def test_a_postgresql_database_of_format_2_is_migrated(postgres: str) -> None:
    import psycopg  # noqa: PLC0415  only where there is a PostgreSQL

    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("CREATE DATABASE old")
    old = postgres.replace("/postgres", "/old")
    with psycopg.connect(old, autocommit=True) as connection:
        connection.execute(watermark_format_2.statements_of_postgresql().encode())
    for step in range(2):
        with running(old) as server:
            answer = server.post(report(source({"h1": T + 50, "h2": T + 3 + step})), app="clicks")
            assert answer["operators"]["source"]["output_low_watermark"] == T + 3 + step
            # Numbers of new rows go on behind those that were copied.
            fresh = report(source({"h": T}, name=f"fresh-{step}"), client=f"query-{step}")
            assert server.post(fresh, app="clicks")["global_low_watermark"] == T
            status, state = server.request("GET", "/v1/apps/clicks")
            assert (status, state["topology"][0]["hosts_excluded"]) == (200, 1)
