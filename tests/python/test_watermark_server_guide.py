"""The commands of the server's guide do what it says."""

from __future__ import annotations

import re
import shlex
import shutil
import sqlite3
import subprocess
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import pages
from tailrace.commands.cli import main
from tailrace.server import ledger, store
from tailrace.server.run import build
from watermark_servers import T, missing, postgres_binaries, report, run_postgres, running, source

GUIDE = "docs/guides/watermark-server-operations.md"
REPORTS = "/v1/apps/app/reports"


def test_the_certificate_of_the_guide_is_served_and_taken(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["/bin/sh", "-c", pages.example(repository, GUIDE, "tls-certificate", "sh")]
    made = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert made.returncode == 0, made.stderr
    monkeypatch.chdir(tmp_path)
    line = shlex.split(pages.example(repository, GUIDE, "tls-server", "sh"))
    assert line[:4] == ["tailrace", "watermark-server", "--listen", "127.0.0.1:7171"]
    with running("sqlite:///w.db", line[4:]) as server:
        setting, program, *ask = shlex.split(pages.example(repository, GUIDE, "tls-ask", "sh"))
        assert program == "tailrace"
        monkeypatch.setenv(*setting.split("=", 1))
        assert main([part.replace(":7171", f":{server.port}") for part in ask]) == 0
    assert capsys.readouterr().out == "No application has reported to this server yet.\n"


def test_a_backup_of_a_running_server_can_be_restored(repository: Path, tmp_path: Path) -> None:
    statement = re.fullmatch(
        r'sqlite3 (\S+) "(.*)"\n', pages.example(repository, GUIDE, "backup-sqlite", "sh")
    )
    assert statement
    live, backup = tmp_path / statement[1], tmp_path / "watermarks-backup.db"
    with TestClient(build(f"sqlite:///{live}", None), base_url="http://127.0.0.1") as client:
        assert client.post(REPORTS, json=report(source({"h": T}))).status_code == 200
        connection = sqlite3.connect(live)
        connection.execute(statement[2].replace(backup.name, str(backup)))
        connection.close()
        assert client.post(REPORTS, json=report(source({"h": T + 5}))).status_code == 200
    with TestClient(build(f"sqlite:///{backup}", None), base_url="http://127.0.0.1") as client:
        assert client.get("/v1/apps/app").json()["global_low_watermark"] == T
        again = client.post(REPORTS, json=report(source({"h": T + 5})))
        assert again.json()["global_low_watermark"] == T + 5


@pytest.mark.campaign
def test_a_dump_of_postgresql_can_be_restored(repository: Path, tmp_path: Path) -> None:
    binaries, dump = postgres_binaries(), shutil.which("pg_dump")
    if binaries is None or dump is None:
        missing("no PostgreSQL here: neither initdb nor pg_dump")
    with run_postgres(binaries) as url, run_postgres(binaries) as empty:
        with running(url) as server:
            server.post(report(source({"h": T})))
            command = pages.example(repository, GUIDE, "backup-postgresql", "sh")
            given = re.sub(r"postgresql://\S+", url, command)
            assert given != command
            subprocess.run(["/bin/sh", "-c", given], cwd=tmp_path, check=True)
        restore = [str(Path(dump).with_name("pg_restore")), "--no-owner", "-d", empty, "watermarks.dump"]
        subprocess.run(restore, cwd=tmp_path, check=True)
        with running(empty) as server:
            assert server.request("GET", "/v1/apps/app")[1]["global_low_watermark"] == T


def test_the_retention_of_the_guide_is_that_of_the_code(repository: Path) -> None:
    text = (repository / GUIDE).read_text()
    assert ledger.HISTORY_KEPT == 6 * 3_600_000_000
    assert "six hours, a point every ten seconds" in text
    assert ledger.HISTORY_STEP == 10_000_000
    assert f"the latest {ledger.WINDOWS_KEPT:,} of each operator" in text
    assert f"the latest {ledger.AUDIT_KEPT:,} of each application" in text
    assert f"the latest {store._RUNS_KEPT:,} of each query" in text
    assert ledger._PRUNE_EVERY == 600_000_000
