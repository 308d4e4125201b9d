"""Databases that fail, are locked or vanish, and answers that a client can't use."""

from __future__ import annotations

import asyncio
import socket
import sqlite3
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from starlette.testclient import TestClient

from tailrace.errors import TailraceServerError
from tailrace.server import intake, overview, postgresql, reading, sqlite, worker
from tailrace.server.database import DatabaseError, NotBegunError
from tailrace.server.ledger import Ledger
from tailrace.server.opening import open_database
from tailrace.server.protocol import Report
from tailrace.server.reporter import RefusedError
from tailrace.server.run import build
from tailrace.server.store import Store
from watermark_servers import T, report, source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

BODY: dict[str, Any] = report(source({"h": T}))
REPORTS = "/v1/apps/app/reports"


def test_health_depends_on_the_database_and_on_no_application(caplog: pytest.LogCaptureFixture) -> None:
    """With reports of two applications in a batch the server was well while the database refused all."""

    class Fake:
        found: Callable[[], list[Any]]

        def report(self, reports: Sequence[Any]) -> list[Any]:
            return self.found() * len(reports)

        def tidy(self) -> None:
            self.found()

        def names(self) -> None:
            self.found()

        def close(self) -> None:
            pass

    def raising(error: Exception) -> Callable[[], list[Any]]:
        def fail() -> list[Any]:
            raise error

        return fail

    fake: Any = Fake()
    some = worker.Worker(fake)
    full, fault = DatabaseError("the disk is full"), ValueError("odd data")

    async def told() -> None:
        with pytest.raises((DatabaseError, ValueError, RefusedError)):
            await some.report("app", Report.model_validate({"client": "c"}))

    some.start()
    for found, is_well in (
        (lambda: [full], False),
        (lambda: [fault], True),
        (raising(full), False),
        (raising(fault), True),
        (lambda: [RefusedError("no")], True),
    ):
        fake.found = found
        asyncio.run(told())
        assert some.tally.is_well() == is_well
    fake.found = list
    some.stop()
    assert "the disk is full" in caplog.text
    for found, is_well in ((raising(full), False), (list, True)):
        fake.found = found
        some._tidy()
        assert some.tally.is_well() == is_well
    some.tally.seen_at -= 1_000
    assert not some.tally.is_well(), "the worker is stuck"


def test_a_health_check_doesnt_wait_and_shows_no_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise DatabaseError("PostgreSQL: connection to db.internal, user dana, failed")

    with TestClient(build(f"sqlite:///{tmp_path / 'w.db'}", None), base_url="http://127.0.0.1") as client:
        monkeypatch.setattr(reading, "MOST_WAITING", 0)
        assert client.get("/v1/apps").status_code == 503
        assert client.get("/healthz").text == "ok\n"
        monkeypatch.setattr(Store, "put_app", fail)
        assert client.post(REPORTS, json=BODY).status_code == 503
        answer = client.get("/healthz")
        assert (answer.status_code, answer.text) == (503, "the database fails: see the server's log\n")
        monkeypatch.undo()
        assert client.post(REPORTS, json=BODY).status_code == 200
        assert client.get("/healthz").status_code == 200


def test_a_database_that_is_locked_is_tried_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of up to 64 applications waited ten seconds for it, and with them all who report."""
    monkeypatch.setattr(sqlite, "WAIT_SECONDS", 0.05)
    database = open_database(f"sqlite:///{tmp_path / 'w.db'}")
    ledger = Ledger(database, Store(database), lambda: T)
    begun: list[str] = []
    run = database.run

    def spied(statement: str, *values: object) -> int:
        begun.extend([statement] * statement.startswith("BEGIN"))
        return run(statement, *values)

    monkeypatch.setattr(database, "run", spied)
    body = Report.model_validate(BODY)
    other = sqlite3.connect(tmp_path / "w.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(NotBegunError, match="locked"):
        ledger.report([(f"app-{n}", body) for n in range(20)])
    assert len(begun) == 1

    # Locked after the first attempt, which fails of something else.
    other.execute("ROLLBACK")
    begun.clear()
    lock = Store.lock

    def locked(store: Store, name: str) -> bool:
        if len(begun) == 1 and name == "app-9":
            raise DatabaseError("another lock")
        if len(begun) == 3:
            raise NotBegunError("it is gone")
        return lock(store, name)

    monkeypatch.setattr(Store, "lock", locked)
    found = ledger.report([(f"app-{n}", body) for n in range(20)])
    assert [isinstance(answer, NotBegunError) for answer in found] == [False] + [True] * 19
    assert len(begun) == 3
    other.close()
    database.close()


def test_a_late_failure_leaves_committed_applications_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = open_database(f"sqlite:///{tmp_path / 'w.db'}")
    ledger = Ledger(database, Store(database), lambda: T)
    take_in, faults = intake.take_in, [DatabaseError("not together"), RecursionError("too deep")]

    def fail(app: Any, *rest: Any) -> None:  # noqa: ANN401  as it is there
        if app.name == "b":
            raise faults.pop(0)
        take_in(app, *rest)

    monkeypatch.setattr(intake, "take_in", fail)
    body = Report.model_validate(BODY)
    found = ledger.report([(app, body) for app in ("a", "b", "c")])
    assert [type(answer).__name__ for answer in found] == ["ReportAnswer", "RecursionError", "ReportAnswer"]
    assert ledger.names() == ["a", "c"]
    database.close()


def test_a_postgresql_that_vanishes_is_noticed_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[dict[str, Any]] = []

    def connect(_: str, **options: Any) -> None:  # noqa: ANN401  libpq's
        given.append(options)
        raise psycopg.OperationalError("not here")

    monkeypatch.setattr(psycopg, "connect", connect)
    for url in ("postgresql://dana@db:5433/w", "postgresql://db/w?tcp_user_timeout=500"):
        with pytest.raises(DatabaseError):
            postgresql.PostgreSQLDatabase(url).rows("SELECT 1")
    assert [str(one["tcp_user_timeout"]) for one in given] == ["10000", "500"]
    assert (given[0]["host"], given[0]["port"], given[0]["user"], given[0]["dbname"]) == (
        *("db", "5433", "dana", "w"),
    )
    assert all(one["keepalives_idle"] == 10 and one["autocommit"] for one in given)


@contextmanager
def saying(answer: bytes) -> Iterator[tuple[str, list[bytes]]]:
    """Somebody at a port who answers everything alike; the URL, and what was asked."""
    asked: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            try:
                while True:
                    connection, _ = listener.accept()
                    with connection:
                        asked.append(connection.recv(10_000))
                        connection.sendall(answer)
            except OSError:
                return

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", asked
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()


def test_a_token_isnt_sent_after_a_redirect() -> None:
    with saying(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]") as (other, asked):
        head = f"HTTP/1.1 302 Found\r\nLocation: {other}/v1/apps\r\nContent-Length: 0\r\n\r\n"
        with (
            saying(head.encode()) as (url, _),
            pytest.raises(TailraceServerError, match=r"302.*to ask") as error,
        ):
            overview.overview(url, "the token of people", None, 5)
        assert asked == []
    assert error.value.condition == "TAILRACE_SERVER_REFUSED"


def test_an_answer_that_isnt_http_is_an_error() -> None:
    with (
        saying(b"SSH-2.0-OpenSSH_9.6\r\n") as (url, _),
        pytest.raises(TailraceServerError, match="SSH") as error,
    ):
        overview.overview(url, None, None, 5)
    assert error.value.condition == "TAILRACE_SERVER_UNREACHABLE"
