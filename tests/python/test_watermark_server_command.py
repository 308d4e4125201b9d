"""`tailrace watermark-server` and `tailrace watermarks` on the command line."""

from __future__ import annotations

import json
import signal
import socket
import sqlite3
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from server_connections import certificate_for_localhost
from tailrace.commands.cli import main
from tailrace.errors import TailraceServerError
from tailrace.server.opening import STORE_VARIABLE
from tailrace.server.run import Options, parse_address, serve
from tailrace.server.schema import FORMAT
from tailrace.server.tokens import TOKEN_VARIABLE, read_token
from watermark_servers import T, report, running, sink, source

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TOKEN = "a token of some length"  # noqa: S105  of the tests


@pytest.fixture(autouse=True)
def no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)


def refused(
    listen: str = "127.0.0.1:0", store: str = "sqlite:///w.db", options: Options | None = None
) -> str | None:
    with pytest.raises(TailraceServerError) as refusal:
        serve(listen, store, options)
    return refusal.value.condition


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]", "192.0.2.1", "example.com"])  # noqa: S104  it is refused
def test_an_address_that_others_can_reach_needs_a_token(host: str, tmp_path: Path) -> None:
    store = tmp_path / "w.db"
    assert refused(f"{host}:7171", f"sqlite:///{store}") == "TAILRACE_SERVER_TOKEN_MISSING"
    assert not store.exists()


@pytest.mark.parametrize("listen", ["7171", ":7171", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:65536", ""])
def test_an_invalid_address_is_refused(listen: str) -> None:
    assert refused(listen) == "TAILRACE_SERVER_ADDRESS_INVALID"


def test_addresses_are_host_and_port() -> None:
    assert parse_address("127.0.0.1:7171") == ("127.0.0.1", 7171)
    assert parse_address("[::1]:0") == ("::1", 0)


@pytest.mark.parametrize("store", ["w.db", "sqlite://", "sqlite:///", "mysql://a/b", "postgresql://"])
def test_an_invalid_store_is_refused(store: str) -> None:
    assert refused(store=store) == "TAILRACE_SERVER_STORE_INVALID"


def test_the_error_of_a_store_hides_its_password(tmp_path: Path) -> None:
    assert refused(store=f"sqlite:///{tmp_path}/nowhere/w.db") == "TAILRACE_SERVER_STORE_UNREACHABLE"
    for url in (
        "postgresql://me:secret@127.0.0.1:1/w",
        "postgresql://me@127.0.0.1:1/w?password=secret",
        "postgresql://me@127.0.0.1:1/w?sslmode=no&password=secret",
        "postgresql://me:se%63ret@127.0.0.1:1/w?nonsense=secret",
        "postgresql://127.0.0.1:1/w?password=secret secret&=",
        "mysql://me:secret@127.0.0.1/w",
        "me:secret@127.0.0.1/w",
        "postgresql:/me:secret@[/w?password=secret",
    ):
        with pytest.raises(TailraceServerError) as refusal:
            serve("127.0.0.1:0", url)
        assert str(refusal.value.condition).startswith("TAILRACE_SERVER_STORE_"), url
        assert "secret" not in f"{refusal.value}{refusal.value.parameters}{refusal.value.__cause__}", url


def test_a_password_on_the_command_line_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = "postgresql://me:secret@127.0.0.1:1/w"
    assert main(["watermark-server", "--store", url]) == 1
    told = capsys.readouterr().err
    assert "[TAILRACE_SERVER_STORE_PASSWORD]" in told
    assert "secret" not in told
    file = tmp_path / "store"
    file.write_text(f"{url}\n")
    assert main(["watermark-server", "--store-file", str(file)]) == 1
    assert "[TAILRACE_SERVER_STORE_UNREACHABLE]" in capsys.readouterr().err
    monkeypatch.setenv(STORE_VARIABLE, "mysql://x")
    assert main(["watermark-server"]) == 1
    assert "[TAILRACE_SERVER_STORE_INVALID]" in capsys.readouterr().err
    assert main(["watermark-server", "--store-file", str(tmp_path / "none")]) == 1


@pytest.mark.slow
def test_a_malformed_file_is_an_error_of_one_line(tmp_path: Path) -> None:
    file = tmp_path / "w.db"
    with running(f"sqlite:///{file}") as server:
        server.post(report(source({f"h{n}": T for n in range(2_000)})))
        server.stop()
    damaged = bytearray(file.read_bytes())
    damaged[4096 * 8 :] = b"\xff" * (len(damaged) - 4096 * 8)
    file.write_bytes(bytes(damaged))
    command = [sys.executable, "-m", "tailrace", "watermark-server", "--listen", "127.0.0.1:0"]
    done = subprocess.run(
        [*command, "--store", f"sqlite:///{file}"], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 1
    assert "[TAILRACE_SERVER_STORE_UNREACHABLE]" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("certificate", [True, False])
def test_invalid_tls_files_are_refused(tmp_path: Path, certificate: bool) -> None:
    file = tmp_path / "some.pem"
    file.write_text("no certificate")
    options = Options(certificate=file) if certificate else Options(key=file)
    assert refused("127.0.0.1:0", f"sqlite:///{tmp_path / 'w.db'}", options) == "TAILRACE_SERVER_TLS_INVALID"


def test_the_error_of_tls_files_names_what_is_wrong(tmp_path: Path) -> None:
    certificate, key = certificate_for_localhost(tmp_path)
    elsewhere = tmp_path / "other"
    elsewhere.mkdir()
    other = certificate_for_localhost(elsewhere)[1]
    for given, expected in (
        (Options(certificate=certificate), f"{certificate} has no private key in PEM format, and there is"),
        (Options(certificate=key), f"{key} has no certificate in PEM format"),
        (Options(certificate=certificate, key=certificate), f"{certificate} has no private key in PEM"),
        (Options(certificate=certificate, key=other), f"the private key in {other} doesn't belong to"),
    ):
        with pytest.raises(TailraceServerError) as caught:
            serve("127.0.0.1:0", f"sqlite:///{tmp_path / 'w.db'}", given)
        assert caught.value.condition == "TAILRACE_SERVER_TLS_INVALID"
        assert expected in str(caught.value)


def test_a_store_of_another_release_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "w.db"
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE format (version BIGINT NOT NULL)")
        connection.execute("INSERT INTO format VALUES (?)", (FORMAT + 1,))
    connection.close()
    assert refused(store=f"sqlite:///{file}") == "TAILRACE_SERVER_STORE_UNREACHABLE"


def test_an_address_in_use_is_refused(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        listen = f"127.0.0.1:{other.getsockname()[1]}"
        assert refused(listen, f"sqlite:///{tmp_path / 'w.db'}") == "TAILRACE_SERVER_ADDRESS_UNAVAILABLE"


def test_a_token_comes_from_a_file_or_else_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    assert read_token(None) is None
    monkeypatch.setenv(TOKEN_VARIABLE, "the environment's token")
    assert read_token(None) == "the environment's token"
    assert read_token(file) == TOKEN
    for bad in ("", "too short", "x" * 15, "not of ASCII größe größe", "two lines\nof a token"):
        file.write_text(bad)
        with pytest.raises(TailraceServerError, match="TAILRACE_SERVER_TOKEN_INVALID"):
            read_token(file)
    with pytest.raises(TailraceServerError, match="TAILRACE_SERVER_TOKEN_INVALID"):
        read_token(tmp_path / "no such file")
    monkeypatch.setenv(TOKEN_VARIABLE, "")
    with pytest.raises(TailraceServerError, match="TAILRACE_SERVER_TOKEN_INVALID"):
        read_token(None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("package", "needs"),
    [
        *((name, "'fastapi>=") for name in ("fastapi", "jinja2", "numpy", "prometheus_client", "uvicorn")),
        ("psycopg", "'psycopg[binary]>="),
    ],
)
def test_a_missing_package_is_an_error_that_names_the_packages(
    package: str, needs: str, run_python: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    code = f"""import sys
sys.modules[{package!r}] = None
from tailrace.commands.cli import main
sys.exit(main(["watermark-server", "--listen", "127.0.0.1:0", "--store", "postgresql://127.0.0.1:1/w"]))"""
    done = run_python("-c", code)
    assert done.returncode == 1
    assert "[TAILRACE_SERVER_DEPENDENCY_MISSING]" in done.stderr
    assert f"pip install {needs}" in done.stderr


def test_a_store_that_cant_be_read_ends_the_server(tmp_path: Path) -> None:
    file = tmp_path / "w.db"
    with running(f"sqlite:///{file}") as server:
        server.post(report(source({"h": T})))
    with sqlite3.connect(file) as connection:
        connection.execute("ALTER TABLE reporter RENAME COLUMN stamps TO gone")
    connection.close()
    assert refused(store=f"sqlite:///{file}") == "TAILRACE_SERVER_STORE_UNREACHABLE"


def test_the_watermarks_command_names_what_holds_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with running(f"sqlite:///{tmp_path / 'w.db'}") as server:
        assert main(["watermarks", "--server", server.url]) == 0
        assert capsys.readouterr().out == "No application has reported to this server yet.\n"
        progress = {"h1": T, "h2": T + 5_000_000}
        server.post(report(source(progress, roster=["h1", "h2"]), sink({"0": T + 9})), app="clicks")
        server.post(report(source({})), app="views")
        assert main(["watermarks", "--server", f"{server.url}/", "--app", "clicks", "--hosts", "1"]) == 0
        out = capsys.readouterr().out
        lines = [line.split() for line in out.splitlines()]
        assert "held by        source" in out
        assert lines[5][:5] == ["source", "source", "–", "2025-11-21", "04:40:00"]  # noqa: RUF001
        assert lines[5][-3:] == ["2", "0", "0"]
        assert lines[-1][:5] == ["h1", "source", "query", "2025-11-21", "04:40:00"]
        assert lines[-1][-1] == "holds"
        assert main(["watermarks", server.url, "--json"]) == 0
        states = json.loads(capsys.readouterr().out)
        assert [state["app"] for state in states] == ["clicks", "views"]
        assert [host["host"] for host in states[0]["slowest_hosts"]] == ["h1", "h2"]
        assert main(["watermarks", "--server", server.url, "--app", "nobody"]) == 1
        assert "TAILRACE_SERVER_REFUSED" in capsys.readouterr().err


def test_the_watermarks_command_sends_its_token(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(f"sqlite:///{tmp_path / 'w.db'}", **{TOKEN_VARIABLE: TOKEN}) as server:
        assert main(["watermarks", "--server", server.url]) == 1
        assert "(401): a bearer token is needed" in capsys.readouterr().err
        monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
        assert main(["watermarks", "--server", server.url]) == 0


@pytest.mark.parametrize(
    ("url", "condition"),
    [
        ("127.0.0.1:7171", "ADDRESS_INVALID"),
        ("file:///etc", "ADDRESS_INVALID"),
        ("http://127.0.0.1:1", "UNREACHABLE"),
        ("http://127.0.0.1:99999", "ADDRESS_INVALID"),
        ("http://a b", "ADDRESS_INVALID"),
        ("http://", "ADDRESS_INVALID"),
        ("http://user:secret@127.0.0.1:1", "ADDRESS_INVALID"),
    ],
)
def test_a_server_that_cant_be_reached_is_an_error(
    url: str, condition: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["watermarks", "--server", url]) == 1
    assert f"[TAILRACE_SERVER_{condition}]" in capsys.readouterr().err


def test_the_server_ends_quietly_from_the_keyboard(tmp_path: Path) -> None:
    line = [sys.executable, "-m", "tailrace", "watermark-server", "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(
        [*line, "--store", f"sqlite:///{tmp_path / 'w.db'}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith("Watermark server on http://127.0.0.1:")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (0, "")
