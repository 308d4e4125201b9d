"""Watermark servers as processes of their own, a PostgreSQL below them, and reports to send to them."""

from __future__ import annotations

import getpass
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

T = 1_763_700_000_000_000
SECOND = 1_000_000
JSON = {"Content-Type": "application/json"}
_START_SECONDS = 30


def source(
    progress: Mapping[str, int],
    *,
    name: str = "source",
    roster: Sequence[str] | None = None,
    **fields: object,
) -> dict[str, Any]:
    """A source's part of a report."""
    given = {"completeness": "1", **fields}
    return {"operator": name, "kind": "source", "roster": roster, "progress": dict(progress), **given}


def sink(
    low: Mapping[str, int],
    *,
    name: str = "sink",
    upstreams: Sequence[str] = ("source",),
    **fields: object,
) -> dict[str, Any]:
    """A sink's part of a report."""
    given = {"upstreams": list(upstreams), "low_watermarks": dict(low), **fields}
    return {"operator": name, "kind": "sink", **given}


def report(
    *operators: Mapping[str, Any], windows: Sequence[Mapping[str, Any]] = (), client: str = "query"
) -> dict[str, Any]:
    """A whole report."""
    return {"client": client, "operators": list(operators), "windows": list(windows)}


class ServerProcess:
    """A server that runs; each request has a connection of its own.

    Args:
        store: the URL of its database.
        options: more of the command line.
        port: 0 takes a free one.
        environ: more of the environment.
    """

    def __init__(self, store: str, options: Sequence[str] = (), port: int = 0, **environ: str) -> None:
        listen = f"127.0.0.1:{port}"
        line = [sys.executable, "-m", "tailrace", "watermark-server", "--listen", listen, *options]
        self._process = subprocess.Popen(
            [*line, "--store", store], stdout=subprocess.PIPE, text=True, env={**os.environ, **environ}
        )
        assert self._process.stdout is not None
        first = self._process.stdout.readline()
        assert "://127.0.0.1:" in first
        self.port = int(first.rpartition(":")[2])
        self.url = first.rpartition(" ")[2].strip()

    @classmethod
    def at(cls, port: int) -> ServerProcess:
        """One that somebody else has started, and ends."""
        server = object.__new__(cls)
        server.port, server.url = port, f"http://127.0.0.1:{port}"
        return server

    def request(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """Status and JSON; raises OSError or HTTPException where the server doesn't answer."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=_START_SECONDS)
        try:
            connection.request(method, path, None if body is None else json.dumps(body), JSON)
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()

    def post(self, body: object, app: str = "app") -> dict[str, Any]:
        """A report that must be acknowledged."""
        status, answer = self.request("POST", f"/v1/apps/{app}/reports", body)
        assert status == 200, answer
        found: dict[str, Any] = answer
        return found

    def await_reports(self, operator: str, app: str = "app") -> None:
        """Waits until each query has reported it twice more: its second report was made after the call."""
        for _ in range(2):
            before = self._reported_at(operator, app)
            wait_for(partial(self._all_reported_since, before, operator, app), f"reports of {operator}")

    def _all_reported_since(self, before: Mapping[str, int], operator: str, app: str) -> bool:
        now = self._reported_at(operator, app)
        return all(now[client] != at for client, at in before.items())

    def _reported_at(self, operator: str, app: str) -> dict[str, int]:
        _, state = self.request("GET", f"/v1/apps/{app}")
        found = {
            reporter["client"]: reporter["reported_at"]
            for known in state["topology"]
            for reporter in known["reporters"]
            if known["operator"] == operator
        }
        assert found, f"nobody has reported {operator}"
        return found

    def kill(self) -> None:
        """As by kill -9."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        """Ends it as a user does."""
        self._process.terminate()
        self._process.wait()


@contextmanager
def running(store: str, options: Sequence[str] = (), **environ: str) -> Iterator[ServerProcess]:
    """A server until the block ends."""
    server = ServerProcess(store, options, 0, **environ)
    try:
        yield server
    finally:
        server.kill()


def missing(program: str) -> NoReturn:
    """Skips a test that needs a program that isn't here; CI, which installs what it needs, fails.

    Args:
        program: which one, and where it was looked for.
    """
    if os.environ.get("CI") == "true":
        pytest.fail(program)
    pytest.skip(program)


def postgres_binaries() -> Path | None:
    """The directory with initdb and postgres; None if there is none."""
    on_path = shutil.which("initdb")
    folders = [Path(on_path).parent] if on_path else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((f for f in folders if (f / "initdb").exists() and (f / "postgres").exists()), None)


@contextmanager
def run_postgres(binaries: Path) -> Iterator[str]:
    """A PostgreSQL on loopback until the block ends; its URL."""
    # It refuses to run as root, who may be anybody else instead.
    user = ("postgres" if _exists("postgres") else "nobody") if os.geteuid() == 0 else getpass.getuser()
    with tempfile.TemporaryDirectory(prefix="tailrace-postgres-", ignore_cleanup_errors=True) as name:
        directory = Path(name)
        data = directory / "data"
        options: dict[str, Any] = {"cwd": directory, "env": {**os.environ, "HOME": name}}
        if os.geteuid() == 0:
            shutil.chown(directory, user)
            options["user"] = user
        initdb = [str(binaries / "initdb"), "-D", str(data), "-U", "tailrace", "--auth=trust", "--no-sync"]
        done = subprocess.run(initdb, capture_output=True, text=True, check=False, **options)
        assert done.returncode == 0, done.stderr
        port = _free_port()
        settings = {"listen_addresses": "127.0.0.1", "port": str(port), "unix_socket_directories": name}
        flags = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
        with (directory / "log").open("wb") as log:
            process = subprocess.Popen(
                [str(binaries / "postgres"), "-D", str(data), *flags],
                stdout=log,
                stderr=log,
                **options,
            )
        try:
            _wait_for(process, port, directory / "log")
            yield f"postgresql://tailrace@127.0.0.1:{port}/postgres"
        finally:
            process.send_signal(signal.SIGQUIT)
            process.wait()


def _exists(user: str) -> bool:
    return any(line.startswith(f"{user}:") for line in Path("/etc/passwd").read_text().splitlines())


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_for(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    import psycopg  # noqa: PLC0415  only where there is a PostgreSQL

    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        try:
            psycopg.connect(f"postgresql://tailrace@127.0.0.1:{port}/postgres").close()
        except psycopg.OperationalError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError(log.read_text(errors="replace")[-2000:])
