"""Connections to the server: slow and silent clients, too many of them, TLS."""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
import time
from contextlib import ExitStack
from http.client import HTTPConnection, HTTPSConnection
from typing import TYPE_CHECKING, Any

import pytest

from server_connections import DECIDE, READ, SEND, certificate_for_localhost, is_closed, opened, served
from tailrace.commands.cli import main
from tailrace.server import connections, guard
from tailrace.server.tokens import Tokens
from watermark_servers import JSON, ServerProcess, T, report, running, source

if TYPE_CHECKING:
    from pathlib import Path

BODY = report(source({"h": T}))


def test_slow_connections_dont_block_reports(tmp_path: Path) -> None:
    """X1: as many idle connections as there were file descriptors stopped everybody."""
    head = b"POST /v1/apps/app/reports HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n"
    limited = f"ulimit -n 200; exec {sys.executable} -m tailrace watermark-server --listen 127.0.0.1:0"
    limited += f" --store sqlite:///{tmp_path / 'w.db'}"
    process = subprocess.Popen(
        ["/bin/sh", "-c", limited], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    server = ServerProcess.at(int(process.stdout.readline().rpartition(":")[2]))
    try:
        with ExitStack() as stack:
            for n in range(450):
                sent = (b"", b"GET / HT", head, head + b"\r\n{")[n % 4]
                stack.enter_context(opened(server, sent))
                if n % 50 == 49:
                    # Among them, and when there are more than the server has room for.
                    assert server.post(BODY)["global_low_watermark"] == T
        # One that has been served is kept while others are turned away.
        kept = HTTPConnection("127.0.0.1", server.port, timeout=30)
        for _ in range(2):
            kept.request("GET", "/healthz")
            assert kept.getresponse().read() == b"ok\n"
        kept.close()
    finally:
        process.terminate()
        _, told = process.communicate(timeout=20)
    assert told == "", "no line for each of them"


def test_a_request_with_two_lengths_is_refused_and_closed(tmp_path: Path) -> None:
    with running(f"sqlite:///{tmp_path / 'w.db'}") as server:
        head = b"POST /v1/apps/app/reports HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        body = json.dumps(BODY).encode()
        chunks = f"{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n"
        lengths = b"Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n" % len(chunks)
        following = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        smuggled = opened(server, head + lengths + chunks + following)
        answer = b""
        while part := smuggled.recv(10_000):
            answer += part
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert answer.count(b"HTTP/1.1 ") == 1, "nothing that follows is answered"
        assert b"connection: close" in answer.lower()
        chunked = opened(server, head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks)
        assert chunked.recv(10_000).startswith(b"HTTP/1.1 200 ")
        chunked.close()


def test_slow_clients_are_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "BODY_SECONDS", 0.3)
    crowd = connections.Crowd(50, head_seconds=0.3, request_seconds=2)
    with served(f"sqlite:///{tmp_path / 'w.db'}", None, crowd) as server:
        assert is_closed(opened(server, b""))
        assert is_closed(opened(server, b"GET /healthz HT"))
        head = b"POST /v1/apps/app/reports HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n{"
        slow = opened(server, head)
        assert slow.recv(1_000).startswith(b"HTTP/1.1 408 ")
        assert is_closed(slow)
        assert crowd.cut_off >= 2
        assert server.post(BODY)["global_low_watermark"] == T


def test_new_connections_replace_silent_ones() -> None:
    class Transport:
        aborted = False

        def abort(self) -> None:
            self.aborted = True

        def is_closing(self) -> bool:
            return self.aborted

    class Loop:
        def call_later(self, *_: object) -> None:
            pass

    class One:
        def __init__(self, state: int, since: float, *, is_refused: bool = False) -> None:
            self.state, self.since, self.transport = state, since, Transport()
            self.is_refused = is_refused

    head, busy, idle = connections.State
    loop: Any = Loop()
    crowd = connections.Crowd(4)
    every: list[Any] = [One(busy, 0), One(idle, 1), One(head, 5), One(busy, 6, is_refused=True), One(head, 9)]
    every += [One(busy, 10), One(busy, 11), One(busy, 12)]
    gone: list[int] = []
    last: Any = One(busy, 13)
    for one in [*every, last]:
        crowd.enter(one, loop)
        gone += [n for n, other in enumerate(every) if other.transport.aborted and n not in gone]
    # Those that were refused go first, then who has said nothing, then who is between two requests, and never
    # one at work.
    assert gone == [3, 2, 4, 1]
    assert last.transport.aborted


@pytest.mark.campaign
def test_refused_connections_are_closed_first(tmp_path: Path) -> None:
    """Each was at work for a minute, and those who report were turned out instead."""
    tokens = Tokens(READ, SEND, DECIDE)
    report = b"POST /v1/apps/app/reports HTTP/1.1\r\nHost: any.example\r\n"
    length = b"Content-Length: 100\r\n\r\n"
    token = f"Authorization: Bearer {READ}\r\n".encode()
    refused = {
        report + length: b"401",
        report + b"Transfer-Encoding: chunked\r\n\r\n": b"401",
        report + token + length: b"403",
        b"GET /healthz HTTP/1.1\r\nHost: any.example\r\n" + length: b"413",
    }
    with (
        served(f"sqlite:///{tmp_path / 'w.db'}", tokens, connections.Crowd(2)) as server,
        ExitStack() as stack,
    ):
        kept = HTTPConnection("127.0.0.1", server.port, timeout=30)
        headers = {**JSON, "Authorization": f"Bearer {SEND}"}
        kept.connect()
        sock = kept.sock
        started = time.monotonic()
        for sent, status in refused.items():
            kept.request("POST", "/v1/apps/app/reports", json.dumps(BODY), headers)
            assert json.load(kept.getresponse())["global_low_watermark"] == T
            assert kept.sock is sock, "it kept its place"
            for _ in range(3):
                one = stack.enter_context(opened(server, sent))
                assert one.recv(1_000).startswith(b"HTTP/1.1 " + status)
            assert is_closed(one)
        assert time.monotonic() - started < 20
        kept.close()


def test_a_client_that_still_writes_can_read_its_refusal(tmp_path: Path) -> None:
    with served(f"sqlite:///{tmp_path / 'w.db'}", Tokens.one(SEND), connections.Crowd(9)) as server:
        connection = HTTPConnection("127.0.0.1", server.port, timeout=30)
        connection.request("POST", "/v1/apps/app/reports", b" " * guard.MAX_BODY, JSON)
        assert connection.getresponse().status == 401
        # Without a body the connection may stay: browsers ask again on it, with a password.
        connection.request("GET", "/")
        answer = connection.getresponse()
        assert (answer.status, answer.headers["connection"], answer.read()[:2]) == (401, None, b'{"')
        connection.close()


def test_requests_without_a_token_fill_no_memory(tmp_path: Path) -> None:
    """16 bodies that didn't end, to a path that was open to all, kept every report out."""
    held = 1_000
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guard, "MAX_BODIES", {"report": held, "decide": held})
        tokens = Tokens(READ, SEND, DECIDE)
        with (
            served(f"sqlite:///{tmp_path / 'w.db'}", tokens, connections.Crowd(50)) as server,
            ExitStack() as stack,
        ):

            def send(line: bytes, token: str, status: bytes | None) -> None:
                head = f" HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n"
                sent = line + f"{head}Content-Length: {held + 1}\r\n\r\n".encode() + b"x" * held
                connection = stack.enter_context(opened(server, sent))
                if status is not None:
                    assert connection.recv(1_000).startswith(b"HTTP/1.1 " + status)

            for path in (b"/healthz", b"/v1/apps/app/reports"):
                send(b"POST " + path, "a wrong one", b"401")
            for method in (b"GET", b"HEAD", b"OPTIONS"):
                send(method + b" /healthz", READ, b"413")
            # Clients that may decide can't keep reports out either.
            send(b"POST /v1/apps/app/overrides", DECIDE, None)
            connection = HTTPConnection("127.0.0.1", server.port, timeout=30)
            connection.request(
                "POST", "/v1/apps/app/reports", json.dumps(BODY), {**JSON, "Authorization": f"Bearer {SEND}"}
            )
            assert connection.getresponse().status == 200
            connection.close()
            send(b"POST /v1/apps/app/overrides", DECIDE, None)


def test_silent_connections_dont_block_tls_handshakes(tmp_path: Path) -> None:
    """They were counted when the handshake was done, and had a minute for it."""
    certificate, key = certificate_for_localhost(tmp_path)
    trust = ssl.create_default_context(cafile=str(certificate))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    crowd = connections.Crowd(20, head_seconds=1)

    def post(server: ServerProcess) -> int:
        connection = HTTPSConnection("127.0.0.1", server.port, context=trust, timeout=20)
        connection.request("POST", "/v1/apps/app/reports", json.dumps(BODY), JSON)
        status = connection.getresponse().status
        connection.close()
        return status

    with served(f"sqlite:///{tmp_path / 'w.db'}", None, crowd, context) as server, ExitStack() as stack:
        silent = [
            stack.enter_context(opened(server, (b"", b"\x16\x03\x01\x02", b"GET / HTTP/1.1\r\n\r\n")[n % 3]))
            for n in range(60)
        ]
        assert post(server) == 200
        assert crowd.cut_off >= 20, "for there is room for 20"
        assert all(is_closed(one) for one in silent)
        # The request in the same packet as the end of the handshake.
        assert [post(server) for _ in range(20)] == [200] * 20


def test_a_server_ends_without_waiting_for_slow_clients(tmp_path: Path) -> None:
    """C5: it waited for the rest of a report that never came."""
    with running(f"sqlite:///{tmp_path / 'w.db'}") as server:
        server.post(BODY)
        head = b"POST /v1/apps/app/reports HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n"
        with opened(server, head + b"Expect: 100-continue\r\n\r\n{") as connection:
            assert connection.recv(100).startswith(b"HTTP/1.1 100"), "the server reads the body"
            started = time.monotonic()
            server.stop()
            assert time.monotonic() - started < 20


def test_tls_is_served_and_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, key = certificate_for_localhost(tmp_path)
    options = ["--tls-certificate", str(certificate), "--tls-key", str(key)]
    with running(f"sqlite:///{tmp_path / 'w.db'}", options=options) as server:
        assert server.url.startswith("https://")
        trust = ssl.create_default_context(cafile=str(certificate))
        connection = HTTPSConnection("127.0.0.1", server.port, context=trust, timeout=20)
        connection.request("POST", "/v1/apps/app/reports", json.dumps(BODY), JSON)
        assert json.load(connection.getresponse())["global_low_watermark"] == T
        connection.close()
        # An unknown certificate isn't taken; one that OpenSSL is told of is.
        assert main(["watermarks", "--server", server.url]) == 1
        assert "CERTIFICATE_VERIFY_FAILED" in capsys.readouterr().err
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert main(["watermarks", "--server", server.url]) == 0
