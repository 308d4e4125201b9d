"""The server under attack: slow and silent connections, too much at once, odd topologies, tokens."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection, HTTPSConnection
from typing import TYPE_CHECKING, Any

import pytest
from starlette.testclient import TestClient

from tailrace.cli import main
from tailrace.server import connections, guard, intake
from tailrace.server.ledger import Ledger
from tailrace.server.opening import open_database
from tailrace.server.protocol import OverrideRequest, Report
from tailrace.server.reporter import RefusedError
from tailrace.server.run import build
from tailrace.server.state import Limits
from tailrace.server.store import Store
from tailrace.server.tokens import Tokens
from tailrace.server.views import app_state
from waiting import wait_for
from watermark_servers import JSON, ServerProcess, T, report, running, sink, source

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tailrace.server.answers import ReportAnswer

READ, SEND, DECIDE = "the token of readers", "the token of queries", "the token of people"
BODY = report(source({"h": T}))


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    database = open_database(f"sqlite:///{tmp_path / 'w.db'}")
    yield Ledger(database, Store(database), lambda: T)
    database.close()


def tell(ledger: Ledger, body: dict[str, Any], app: str = "app") -> ReportAnswer:
    (answer,) = ledger.report([(app, Report.model_validate(body))])
    if isinstance(answer, Exception):
        raise answer
    return answer


def decide(ledger: Ledger, action: str, app: str = "app", **fields: object) -> None:
    given = {"operator": "source", "name": "dana", "reason": "a test", **fields}
    ledger.override(app, OverrideRequest.model_validate({"action": action, **given}))


def opened(server: ServerProcess, sent: bytes) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=30)
    connection.sendall(sent)
    return connection


def is_closed(connection: socket.socket) -> bool:
    try:
        while connection.recv(1_000):
            pass
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False
    return True


@contextmanager
def served(
    store: str, tokens: Tokens | None, crowd: connections.Crowd, context: ssl.SSLContext | None = None
) -> Iterator[ServerProcess]:
    """A server in a thread of this process."""
    import uvicorn  # noqa: PLC0415  here alone

    protocol = connections.protocol_of(crowd)
    if context is not None:
        protocol = connections.secured_protocol_of(protocol, crowd, context)
    config = uvicorn.Config(build(store, tokens), port=0, http=protocol, ws="none", log_level="error")
    found = uvicorn.Server(config)
    thread = threading.Thread(target=found.run)
    thread.start()
    try:
        wait_for(lambda: found.started, "the server starts")
        yield ServerProcess.at(found.servers[0].sockets[0].getsockname()[1])
    finally:
        found.should_exit = True
        thread.join()


def certificate_for_localhost(directory: Path) -> tuple[Path, Path]:
    """It and its key."""
    certificate, key = directory / "certificate.pem", directory / "key.pem"
    made = [
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
    ]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run(
        ["/usr/bin/env", "openssl", *made, *names, "-keyout", str(key), "-out", str(certificate)],
        check=True,
        capture_output=True,
    )
    return certificate, key


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
            # Who may decide something can't keep reports out either.
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


def test_a_body_above_the_limit_gets_a_reason(tmp_path: Path) -> None:
    """C6: what was still being sent was reset, and with it the answer."""
    with running(f"sqlite:///{tmp_path / 'w.db'}") as server:
        body = b'{"client": "' + b"x" * (guard.MAX_BODY + 2**20) + b'"}'
        connection = HTTPConnection("127.0.0.1", server.port, timeout=30)
        connection.request("POST", "/v1/apps/app/reports", body, JSON)
        assert connection.getresponse().status == 413
        connection.close()
        # Without a page of its own, and with another number of this machine.
        head = HTTPConnection("127.0.0.1", server.port, timeout=30)
        head.request("HEAD", "/", headers={"Host": "127.0.0.2:7171"})
        answer = head.getresponse()
        assert (answer.status, answer.read()) == (200, b"")
        head.close()


def test_layers_of_removed_operators_are_fast(ledger: Ledger) -> None:
    """X2: each layer doubled it, for each way through them was gone."""
    layers, wide = 60, 8
    body = report(source({"h": T}))
    names: list[str] = ["source"]
    for layer in range(layers):
        fresh = [f"{layer}-{n}" for n in range(wide)]
        body["operators"] += [{"operator": n, "kind": "operator", "upstreams": names} for n in fresh]
        names = fresh
    body["operators"].append(sink({"0": T - 5}, upstreams=names))
    tell(ledger, body)
    decide(ledger, "remove", operator=None)
    answer = tell(ledger, report(source({"h": T + 1}), sink({"0": T - 4}, upstreams=names)))
    assert answer.global_low_watermark == T - 4
    app = ledger.app("app")
    assert app is not None
    state = app_state(app, ledger.now(), ledger.limits)
    assert [(o.operator, o.upstreams) for o in state.topology] == [("source", []), ("sink", ["source"])]


def test_a_long_chain_of_removed_operators_is_skipped(ledger: Ledger) -> None:
    """X3: RecursionError."""
    chain = [{"operator": "1", "kind": "operator", "upstreams": ["source"]}]
    chain += [{"operator": str(n), "kind": "operator", "upstreams": [str(n - 1)]} for n in range(2, 991)]
    tell(ledger, report(source({"h": T}), *chain, sink({}, upstreams=["990"])))
    decide(ledger, "remove", operator=None)
    back = report(source({"h": T + 3}), sink({}, upstreams=["990"]))
    assert tell(ledger, back).global_low_watermark == T + 3
    app = ledger.app("app")
    assert app is not None
    assert app_state(app, ledger.now(), ledger.limits).topology[1].upstreams == ["source"]


def test_the_failure_of_an_application_leaves_others_alone(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X3: 40 of 48 reports of others failed with it."""
    for app in ("a", "b", "c"):
        tell(ledger, report(source({"h": T})), app)
    take_in = intake.take_in

    def fail(app: Any, *rest: Any) -> None:  # noqa: ANN401  as it is there
        take_in(app, *rest)
        if app.name == "b":
            raise RecursionError("too deep")

    monkeypatch.setattr(intake, "take_in", fail)
    body = Report.model_validate(report(source({"h": T + 5})))
    found = ledger.report([(app, body) for app in ("a", "b", "c", "b")])
    assert [isinstance(answer, RecursionError) for answer in found] == [False, True, False, True]
    monkeypatch.undo()
    assert tell(ledger, report(source({})), "a").global_low_watermark == T + 5
    assert tell(ledger, report(source({})), "b").global_low_watermark == T


def test_applications_operators_and_upstreams_have_limits(tmp_path: Path) -> None:
    database = open_database(f"sqlite:///{tmp_path / 'few.db'}")
    limits = Limits(apps=2, operators=3, edges=3, clients=2)
    ledger = Ledger(database, Store(database), lambda: T, limits=limits)
    for app in ("app", "b"):
        tell(ledger, report(source({"h": T})), app)
    with pytest.raises(RefusedError, match="2 applications"):
        tell(ledger, report(source({"h": T})), "c")
    tell(ledger, report(sink({}), sink({}, name="other")))
    decide(ledger, "remove", operator="other")
    with pytest.raises(RefusedError, match="3 operators, removed ones too"):
        tell(ledger, report(sink({}, name="more")))
    decide(ledger, "purge", operator="other", confirm=True)
    tell(ledger, report(sink({}, name="more")))
    with pytest.raises(RefusedError, match="3 upstreams"):
        tell(ledger, report(sink({}, name="more", upstreams=["a", "b", "c"])))
    tell(ledger, {"client": "2", "operators": []})
    with pytest.raises(RefusedError, match="2 clients"):
        tell(ledger, {"client": "3", "operators": []})
    decide(ledger, "purge", "b", operator=None, confirm=True)
    assert ledger.names() == ["app"]
    assert ledger.app("b") is None
    tell(ledger, report(source({"h": T})), "c")
    database.close()


def test_an_advance_needs_confirmation_and_can_be_undone(ledger: Ledger) -> None:
    tell(ledger, report(source({"h1": T - 60, "h2": T - 9}), sink({})))
    with pytest.raises(RefusedError, match=r"past 1 hosts.*with confirm"):
        decide(ledger, "advance", to=T - 20)
    with pytest.raises(RefusedError, match="nothing to undo"):
        decide(ledger, "undo")
    decide(ledger, "advance", to=T - 20, confirm=True)
    assert tell(ledger, report(source({}), sink({}))).global_low_watermark == T - 20
    decide(ledger, "undo")
    answer = tell(ledger, report(source({"h1": T - 50}), sink({})))
    assert (answer.global_low_watermark, answer.operators["sink"].output_low_watermark) == (T - 50, T - 50)
    app = ledger.app("app")
    assert app is not None
    assert [line[1] for line in ledger.records.audit(app, 9, 0)] == ["undo", "advance"]


def test_a_purge_forgets_for_good(ledger: Ledger) -> None:
    """S5: what had gone wrong stayed, also after `remove`."""
    tell(ledger, report(source({"h": T + 50}), sink({})))
    decide(ledger, "remove")
    assert tell(ledger, report(source({"h": T - 5}), sink({}))).global_low_watermark == T + 50
    with pytest.raises(RefusedError, match="with confirm"):
        decide(ledger, "purge")
    decide(ledger, "purge", confirm=True)
    answer = tell(ledger, report(source({"h": T - 5}), sink({})))
    assert (answer.global_low_watermark, answer.need_roster) == (T - 5, True)
    decide(ledger, "purge", operator=None, confirm=True)
    assert (ledger.names(), ledger.app("app")) == ([], None)
    assert tell(ledger, report(source({"h": T - 9}))).global_low_watermark == T - 9


def test_another_server_sees_a_purge(tmp_path: Path, ledger: Ledger) -> None:
    database = open_database(f"sqlite:///{tmp_path / 'w.db'}")
    other = Ledger(database, Store(database), lambda: T)
    tell(ledger, report(source({"h": T + 50}), sink({})))
    assert tell(other, report(source({}))).global_low_watermark == T + 50
    decide(ledger, "purge", operator=None, confirm=True)
    tell(ledger, report(source({"h": T - 9})))
    assert tell(other, report(source({}))).global_low_watermark == T - 9
    decide(ledger, "purge", operator=None, confirm=True)
    assert tell(other, report(source({"h": T - 20}))).global_low_watermark == T - 20
    database.close()


def test_a_token_of_its_own_for_each_right(tmp_path: Path) -> None:
    tokens = Tokens(READ, SEND, DECIDE)
    override = {"action": "exclude", "operator": "source", "host": "h", "name": "dana", "reason": "a test"}
    requests: list[tuple[str, str, Any, str]] = [
        ("POST", "/v1/apps/app/reports", BODY, "report"),
        ("POST", "/v1/apps/app/overrides", override, "decide"),
        ("GET", "/v1/apps/app", None, "read"),
        ("GET", "/", None, "read"),
        ("GET", "/metrics", None, "read"),
    ]
    rights = {READ: {"read"}, SEND: {"read", "report"}, DECIDE: {"read", "decide"}, "no token of any": set()}
    with TestClient(build(f"sqlite:///{tmp_path / 'w.db'}", tokens), base_url="http://any.example") as client:
        headers = {"Authorization": f"Bearer {SEND}"}
        assert client.post("/v1/apps/app/reports", json=BODY, headers=headers).status_code == 200
        for token, allowed in rights.items():
            for method, path, body, right in requests:
                answer = client.request(method, path, json=body, headers={"Authorization": f"Bearer {token}"})
                expected = 200 if right in allowed else 403 if allowed else 401
                assert answer.status_code == expected, (token, path)
                assert token not in answer.text or right in allowed


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


def test_a_file_that_was_deleted_is_noticed(tmp_path: Path) -> None:
    """C6: acknowledged reports were lost with it."""
    file = tmp_path / "w.db"
    with running(f"sqlite:///{file}") as server:
        server.post(BODY)
        file.rename(tmp_path / "elsewhere.db")
        for _ in range(2):
            status, answer = server.request("POST", "/v1/apps/app/reports", BODY)
            assert (status, "isn't there any more" in answer["detail"]) == (503, True)
        connection = HTTPConnection("127.0.0.1", server.port, timeout=30)
        connection.request("GET", "/healthz")
        assert connection.getresponse().status == 503
        connection.close()
        assert not file.exists()
