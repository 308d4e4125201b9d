"""Whether the server is ready, and what it logs."""

from __future__ import annotations

import logging
import re
import signal
import sqlite3
import subprocess
import sys
import threading
from http.client import HTTPConnection
from typing import TYPE_CHECKING

import pytest
from starlette.testclient import TestClient

from tailrace.server import health, logs
from tailrace.server.run import Options, build
from waiting import wait_for
from watermark_servers import ServerProcess, T, report, source

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fastapi import FastAPI

    from tailrace.server.ledger import Ledger


@pytest.fixture
def application(tmp_path: Path) -> FastAPI:
    return build(f"sqlite:///{tmp_path / 'w.db'}", "a token that a probe doesn't have")


@pytest.fixture
def client(application: FastAPI, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    monkeypatch.setattr(health, "_FRESH_SECONDS", 0)
    with TestClient(application, base_url="http://probe.example") as client:
        yield client


def test_a_server_is_ready_until_its_database_is_gone(client: TestClient, tmp_path: Path) -> None:
    assert (client.get("/readyz").status_code, client.get("/readyz").text) == (200, "ok\n")
    aside = tmp_path / "aside"
    (tmp_path / "w.db").rename(aside)
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert answer.text == "the database fails: see the server's log\n"
    aside.rename(tmp_path / "w.db")
    assert client.get("/readyz").status_code == 200


def test_a_server_that_cant_write_isnt_ready(client: TestClient, tmp_path: Path) -> None:
    assert client.get("/readyz").status_code == 200
    other = sqlite3.connect(tmp_path / "w.db", isolation_level=None)
    # As on a full disk: it can be read, and no write succeeds.
    other.execute("CREATE TRIGGER full BEFORE UPDATE ON format BEGIN SELECT RAISE(ABORT, 'disk full'); END")
    answer = client.get("/readyz")
    assert (answer.status_code, answer.text) == (503, "the database fails: see the server's log\n")
    other.execute("DROP TRIGGER full")
    other.close()
    assert client.get("/readyz").status_code == 200


def test_a_server_whose_worker_is_dead_isnt_ready(client: TestClient, application: FastAPI) -> None:
    worker = application.state.worker
    worker._jobs.put(None)
    wait_for(lambda: not worker.is_alive(), "the worker's end")
    answer = client.get("/readyz")
    assert (answer.status_code, "has ended" in answer.text) == (503, True)
    assert client.get("/healthz").status_code == 200, "that is asked by /readyz alone"


def test_a_server_whose_worker_is_stuck_isnt_ready(
    client: TestClient, application: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "WAIT_SECONDS", 0.05)
    go_on = threading.Event()
    worker = application.state.worker
    worker._jobs.put(go_on.wait)
    for _ in range(3):
        answer = client.get("/readyz")
        assert (answer.status_code, "doesn't answer within" in answer.text) == (503, True)
    assert worker._jobs.qsize() <= 1, "who asks again and again doesn't pile up work"
    go_on.set()
    wait_for(lambda: client.get("/readyz").status_code == 200, "the worker is back")


def test_who_asks_at_once_shares_an_answer(application: FastAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0
    look = health._look

    def counted(ledger: Ledger) -> None:
        nonlocal asked
        asked += 1
        look(ledger)

    monkeypatch.setattr(health, "_look", counted)
    with TestClient(application, base_url="http://probe.example") as client:
        for _ in range(20):
            assert client.get("/readyz").status_code == 200
    assert asked <= 4


def test_the_log_has_overrides_and_requests(tmp_path: Path) -> None:
    override = {"action": "exclude", "operator": "source", "host": "h", "name": "dana", "reason": "a test"}
    line = [sys.executable, "-m", "tailrace", "watermark-server", "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(
        [*line, "--store", f"sqlite:///{tmp_path / 'w.db'}", "--log-level", "info", "--access-log"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    server = ServerProcess.at(int(process.stdout.readline().rpartition(":")[2]))
    server.post(report(source({"h": T})))
    assert server.request("POST", "/v1/apps/app/overrides", override)[0] == 200
    connection = HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.request("GET", "/v1/apps/x%0Ay?a=b", headers={"Host": "other.example"})
    assert connection.getresponse().status == 421
    connection.close()
    process.send_signal(signal.SIGINT)
    told = process.communicate(timeout=20)[1]
    requests = [line for line in told.splitlines() if "tailrace.access" in line]
    assert len(requests) == 3
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ INFO tailrace\.access: 127\.0\.0\.1 "
        r'"POST /v1/apps/app/reports" 200 \d+ \d+\.\d ms',
        requests[0],
    )
    assert '"GET /v1/apps/x%0Ay?a=b" 421 ' in requests[2]
    assert "INFO tailrace.server.api: 'app': exclude of 'source' by 'dana': a test" in told


def test_the_log_has_what_its_level_says(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    logger = logging.getLogger("tailrace")
    monkeypatch.setattr(logger, "handlers", [])
    monkeypatch.setattr(logger, "level", logging.NOTSET)
    for level, written in (("error", ["ERROR"]), ("info", ["INFO", "WARNING", "ERROR"])):
        logs.write_log(level)
        for number in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR):
            logging.getLogger("tailrace.server.some").log(number, "it happens")
        assert [line.split()[1] for line in capsys.readouterr().err.splitlines()] == written
    assert len(logger.handlers) == 1


def test_requests_arent_logged_unless_asked_for(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for access_log, lines in ((False, 0), (True, 1)):
        caplog.clear()
        options = Options(access_log=access_log)
        with (
            caplog.at_level(logging.INFO),
            TestClient(
                build(f"sqlite:///{tmp_path / 'w.db'}", None, options), base_url="http://127.0.0.1"
            ) as client,
        ):
            client.get("/v1/apps")
        assert len([r for r in caplog.records if r.name == logs._access.name]) == lines
