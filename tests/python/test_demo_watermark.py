from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from server_connections import served
from tailrace.demo.told_windows import tell_windows
from tailrace.server import connections
from watermark_servers import SECOND, T, report, source

if TYPE_CHECKING:
    from pathlib import Path

# Rows a minute of two hosts in windows of ten minutes: web-1 until 12:41, web-2 first until 12:05.
SHOWN = """
web-1 has logged until 12:41, and web-2 until 12:05:
  at 100%, windows that close: none
  at  50%, windows that close: 12:00 (16 rows), 12:10 (10 rows), 12:20 (10 rows), 12:30 (10 rows)

web-2 has caught up:
  at 100%, windows that close: 12:00 (20 rows), 12:10 (20 rows), 12:20 (20 rows), 12:30 (20 rows)
  at  50%, windows that close: none
"""


def test_the_guide_shows_what_comes_out(repository: Path) -> None:
    assert f"```{SHOWN}```" in (repository / "docs/guides/watermark-server.md").read_text()


@pytest.mark.campaign
def test_windows_wait_for_the_host_that_lags_at_100_percent_and_not_at_50() -> None:
    line = [sys.executable, "-m", "tailrace", "demo-watermark", "--no-browser", "--driver-memory", "1g"]
    environ = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(line, capture_output=True, text=True, check=False, env=environ)
    assert done.returncode == 0, done.stderr[-4000:]
    assert "page: http://127.0.0.1:" in done.stdout
    assert SHOWN in done.stdout


def test_the_servers_page_gets_the_windows_with_the_hosts_that_they_lack(tmp_path: Path) -> None:
    with served(f"sqlite:///{tmp_path / 'w.db'}", None, connections.Crowd(50)) as server:
        hosts = {"web-1": T + 1_500 * SECOND, "web-2": T + 300 * SECOND}
        server.post(report(source(hosts, completeness="0.5")), app="windows%20at%2050%25")
        tell_windows(server.url, "windows at 50%", [])
        tell_windows(server.url, "windows at 50%", [(T, T + 600 * SECOND), (T - 600 * SECOND, T)])
        windows = server.request("GET", "/v1/apps/windows%20at%2050%25/windows")[1]["windows"]
    assert [(w["start"], w["passed"], w["expected"], w["missing"]) for w in windows] == [
        (T, 1, 2, [{"host": "web-2", "progress": T + 300 * SECOND}]),
        (T - 600 * SECOND, 2, 2, []),
    ]
