"""The screenshots of the documentation: the pages that they show have what the text beside them says."""

from __future__ import annotations

import datetime as dt
import math
import re
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import screenshots
from browsers import texts
from waiting import wait_for
from watermark_servers import SECOND, report, running, sink, source

sys.path.append(str(Path(__file__).parents[2] / "docs"))

import generated

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

pytestmark = pytest.mark.campaign

_MINUTE = 60 * SECOND
_HOSTS = [f"web-{n}" for n in range(1, 7)]


def _reports(now: int) -> list[dict[str, Any]]:
    """Two queries with parts of the same logs: `clicks-west` has read web-6 until eight minutes ago."""
    ahead = {host: now - (40 + 3 * n) * SECOND for n, host in enumerate(_HOSTS[:5])}
    west = {**{host: ahead[host] for host in _HOSTS[3:5]}, "web-6": now - 8 * _MINUTE}
    east = {host: ahead[host] for host in _HOSTS[:3]}
    # The first report decides where the watermark begins, and it never goes back.
    parts = (("clicks-west", west), ("clicks-east", east))
    return [
        {
            **report(
                source(progress, roster=[*progress], label="clicks (Kafka)", reads=[f"kafka:{name}"]),
                sink(
                    {"0": min(progress.values())},
                    key_groups=1,
                    label=f"windows in {name}",
                    reads=[f"folder:/{name}"],
                ),
                client=f"0f0e6c1a-{name}",
            ),
            "query": name,
            "version": 2,
            "run": "1",
        }
        for name, progress in parts
    ]


def _remember(store: Path, now: int) -> None:
    """Six hours of history, in which the lag has been a minute until a host stopped eight minutes ago."""
    with sqlite3.connect(store, timeout=20) as connection:
        (app,) = connection.execute("SELECT id FROM app WHERE name = 'clicks'").fetchone()
        for minute in range(360, 0, -1):
            at = now // _MINUTE * _MINUTE - minute * _MINUTE
            lag = (65 + 15 * math.sin(minute / 9)) * SECOND + max(0, 8 - minute) * _MINUTE
            rows = (("", lag), ("sink", lag), ("source", lag - 10 * SECOND))
            for operator, behind in rows:
                connection.execute(
                    "INSERT INTO history (app_id, at, operator, low_watermark) VALUES (?, ?, ?, ?)",
                    (app, at, operator, at - int(behind)),
                )
    connection.close()


def test_the_page_of_the_server(browser: Chrome, tmp_path: Path) -> None:
    store = tmp_path / "w.db"
    now = time.time_ns() // 1_000
    with running(f"sqlite:///{store}") as server:
        for body in _reports(now):
            server.post(body, app="clicks")
        _remember(store, now)
        browser.get(f"{server.url}/?app=clicks")
        wait_for(lambda: browser.find_elements("css selector", "svg.history polyline"), "the chart")
        (held,) = texts(browser, "#held")
        assert "waits for web-6 of clicks-west" in held
        clocks = texts(browser, "svg.history .axis.time:not(.local)")
        assert len(clocks) >= 3
        assert texts(browser, "svg.history .axis.local") == [""] * (len(clocks) + 1), "it is UTC here"
        path = screenshots.take(browser, "server")
        # Elsewhere the chart has both times.
        browser.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": "Asia/Kolkata"})
        browser.refresh()
        wait_for(lambda: all(texts(browser, "svg.history .axis.local")), "local times")
        name, *local = texts(browser, "svg.history .axis.local")
        browser.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": ""})
        day = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
        utc = [dt.datetime.combine(day, dt.time.fromisoformat(clock)) for clock in clocks]
        assert name == "local time"
        assert local == [f"{time + dt.timedelta(hours=5, minutes=30):%H:%M}" for time in utc]
    assert 20_000 < path.stat().st_size < 400_000


def test_the_page_of_the_demo(browser: Chrome, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tailrace", "demo", "--rows", "20000", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    browser.get((tmp_path / "demo.html").as_uri())
    assert "equal the brute-force answer" in texts(browser, ".verdict")[0]
    assert 20_000 < screenshots.take(browser, "demo").stat().st_size < 400_000


def test_a_page_has_the_picture_that_is_there_and_none_that_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generated, "_ROOT", tmp_path)
    monkeypatch.delenv("TAILRACE_SCREENSHOTS", raising=False)
    read: list[str] = []
    app: Any = SimpleNamespace(env=SimpleNamespace(note_dependency=read.append))

    def page() -> str:
        source = ["one\n<!-- screenshot:the-page A page\nwith a table. -->\ntwo"]
        generated._with_screenshots(app, "docs/page", source)
        return source[0]

    assert page() == "one\n\ntwo"
    monkeypatch.setenv("TAILRACE_SCREENSHOTS", "required")
    with pytest.raises(FileNotFoundError, match=r"screenshots/the-page.png is missing"):
        page()
    (tmp_path / "build/screenshots").mkdir(parents=True)
    (tmp_path / "build/screenshots/the-page.png").write_bytes(b"")
    assert page() == "one\n![A page with a table.](/build/screenshots/the-page.png)\ntwo"
    assert {Path(name).name for name in read} == {"the-page.png"}, "Sphinx reads the page again then"


def test_each_screenshot_of_a_page_is_taken_by_a_test(repository: Path) -> None:
    named = {
        name
        for page in (repository / "docs").rglob("*.md")
        for name in re.findall(r"<!-- screenshot:([a-z-]+) ", page.read_text())
    }
    tests = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    assert named == set(re.findall(r'screenshots\.take\(browser, "([a-z-]+)"', tests)) != set()
