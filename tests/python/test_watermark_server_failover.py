"""Several servers of one store: who is asked in which order, and how their stores are told apart."""

from __future__ import annotations

import json
import sqlite3
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING

import pytest

from tailrace.errors import TailraceServerError
from tailrace.server.failover import Servers
from tailrace.server.opening import open_database, store_id
from watermark_servers import missing, postgres_binaries, run_postgres, running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_BINARIES = postgres_binaries()


class Stub:
    """A server whose answers a test decides.

    Attributes:
        status: of each answer.
        store: the id in each answer; None as in earlier releases.
        asked: the paths of its requests.
        url: its address.
    """

    def __init__(self) -> None:
        self.status = 200
        self.store: str | None = None
        self.asked: list[str] = []
        stub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                stub.asked.append(self.path)
                body = json.dumps({"detail": f"status {stub.status}"}).encode()
                self.send_response(stub.status)
                if stub.store is not None:
                    self.send_header("Tailrace-Store", stub.store)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Says nothing."""

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def close(self) -> None:
        """Frees its port; twice is once."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@contextmanager
def stubs(count: int) -> Iterator[list[Stub]]:
    """Servers until the block ends."""
    made = [Stub() for _ in range(count)]
    try:
        yield made
    finally:
        for stub in made:
            stub.close()


def asked(servers: Servers, all_stubs: list[Stub]) -> list[int]:
    """How many requests each stub has had for one question."""
    before = [len(stub.asked) for stub in all_stubs]
    servers.ask("/v1/apps")
    return [len(stub.asked) - count for stub, count in zip(all_stubs, before, strict=True)]


def test_the_server_that_answered_last_is_asked_first() -> None:
    with stubs(3) as all_stubs:
        a, b, c = all_stubs
        servers = Servers(",".join(stub.url for stub in all_stubs), None)
        assert asked(servers, all_stubs) == [1, 0, 0]
        a.status, b.status = 500, 503
        assert asked(servers, all_stubs) == [1, 1, 1]
        a.status = b.status = 200
        assert asked(servers, all_stubs) == [0, 0, 1]
        c.close()
        assert asked(servers, all_stubs) == [1, 0, 0]


@pytest.mark.parametrize("status", [302, 400, 401, 404, 409, 422])
def test_a_refusal_is_an_answer(status: int) -> None:
    with stubs(2) as all_stubs:
        all_stubs[0].status = status
        with pytest.raises(TailraceServerError, match=f"refuses .{status}") as refused:
            Servers(",".join(stub.url for stub in all_stubs), None).ask("/v1/apps")
        assert refused.value.condition == "TAILRACE_SERVER_REFUSED"
        assert all_stubs[1].asked == []


def test_the_error_names_each_server_with_its_reason_if_all_fail() -> None:
    with stubs(2) as all_stubs:
        a, b = all_stubs
        a.status = 503
        b.close()
        with pytest.raises(TailraceServerError) as failed:
            Servers(f"{a.url},{b.url}", None).ask("/v1/apps")
        assert failed.value.condition == "TAILRACE_SERVER_UNREACHABLE"
        assert f"{a.url} refuses (503): status 503." in str(failed.value)
        assert f"{b.url} can't be asked: [Errno 111] Connection refused." in str(failed.value)
        # One alone is told of as ever.
        with pytest.raises(TailraceServerError, match="refuses") as failed:
            Servers(a.url, None).ask("/v1/apps")
        assert failed.value.condition == "TAILRACE_SERVER_REFUSED"


def test_servers_of_two_stores_are_refused() -> None:
    with stubs(2) as all_stubs:
        a, b = all_stubs
        a.store, b.store = "A", "B"
        servers = Servers(f"{a.url},{b.url}", None)
        servers.ask("/v1/apps")
        a.status = 503
        with pytest.raises(TailraceServerError) as differ:
            servers.ask("/v1/apps")
        assert differ.value.condition == "TAILRACE_SERVER_STORES_DIFFER"
        for named in (a.url, b.url, " A ", " B:"):
            assert named in str(differ.value)


@pytest.mark.parametrize(
    "named", ["", ",", "http://a:1,", "http://a:1,,http://b:1", "http://a:1,b", "http://a:1,HTTP://A:1/"]
)
def test_addresses_that_make_no_sense_are_refused(named: str) -> None:
    with pytest.raises(TailraceServerError) as refused:
        Servers(named, None)
    assert refused.value.condition == "TAILRACE_SERVER_ADDRESS_INVALID"


@pytest.mark.slow
def test_each_answer_of_a_server_names_its_store(tmp_path: Path) -> None:
    import http.client  # noqa: PLC0415

    one, copied = tmp_path / "w.db", tmp_path / "copy.db"

    def stores(store: Path) -> set[str | None]:
        with running(f"sqlite:///{store}") as server:
            found = set()
            for path in ("/healthz", "/v1/apps", "/v1/apps/nobody"):
                connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
                connection.request("GET", path)
                found.add(connection.getresponse().getheader("Tailrace-Store"))
                connection.close()
            return found

    first = stores(one)
    assert len(first) == 1
    assert first != {None}
    assert stores(one) == first, "it keeps its name"
    with sqlite3.connect(one) as open_store, sqlite3.connect(copied) as into:
        open_store.backup(into)
    assert stores(copied) != first, "a copy goes its own way"


def test_servers_of_one_postgresql_have_one_store_and_its_databases_have_two() -> None:
    if _BINARIES is None:
        missing("no PostgreSQL here: neither initdb and postgres on the PATH nor in /usr/lib/postgresql")
    import psycopg  # noqa: PLC0415  only where there is a PostgreSQL

    with run_postgres(_BINARIES) as url:
        names = {store_id(open_database(url)) for _ in range(2)}
        assert len(names) == 1
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE DATABASE other")
        other = url.replace("/postgres", "/other")
        open_database(other).close()
        with psycopg.connect(other, autocommit=True) as connection, psycopg.connect(url) as origin:
            connection.execute("DELETE FROM store")
            name = origin.execute("SELECT name FROM store").fetchall()[0]
            connection.execute("INSERT INTO store VALUES (%s)", name)
        assert store_id(open_database(other)) not in names, "a restored dump is another database"
