"""`MetricsListener`: Prometheus reads what the queries say, and the dashboard and the alerts work with it."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client.parser import text_string_to_metric_families as families

import pages
import screenshots
from browsers import shown_at
from modes import environ_of_classic
from monitored_application import NAME, metrics

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession
    from selenium.webdriver import Chrome
    from selenium.webdriver.remote.webelement import WebElement

_JOIN = (NAME, "tailraceLabelJoin", "0")


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the application keeps its files in."""
    return tmp_path_factory.mktemp("monitored")


@pytest.fixture(scope="module")
def port(directory: Path) -> Iterator[str]:
    """The port of the UI of an application whose queries have run."""
    program = [sys.executable, str(Path(__file__).with_name("monitored_application.py")), str(directory)]
    pipe = subprocess.PIPE
    with subprocess.Popen(program, stdin=pipe, stdout=pipe, text=True, env=environ_of_classic()) as run:
        assert run.stdin
        assert run.stdout
        line = run.stdout.readline().strip()
        assert line, "the application has ended"
        yield line
        run.stdin.close()
        assert run.wait(60) == 0


def _values(text: str, series: str) -> dict[tuple[str, ...], float]:
    """The values of a series by its labels' values, without the query's id."""
    samples = [sample for family in families(text) for sample in family.samples if sample.name == series]
    return {
        tuple(v for name, v in sample.labels.items() if name != "query_id"): sample.value
        for sample in samples
    }


@pytest.mark.slow
def test_prometheus_gets_the_numbers_of_all_queries(port: str) -> None:
    kind, text = metrics(port)
    assert kind.startswith("text/plain; version=0.0.4")
    assert _values(text, "tailrace_query_active") == {(NAME,): 0, ("hosts",): 1, ("broken",): 0}
    assert _values(text, "tailrace_query_failures_total") == {(NAME,): 0, ("hosts",): 0, ("broken",): 1}
    assert _values(text, "tailrace_query_input_rows_total")[NAME,] == 7
    assert _values(text, "tailrace_state_late_rows_total")[_JOIN] == 1
    assert _values(text, "tailrace_join_late_left_rows_total")[_JOIN] == 1
    assert _values(text, "tailrace_join_groups_emitted_total")[_JOIN] == 2
    assert _values(text, "tailrace_join_groups_matched_total")[_JOIN] == 1
    # Of 13:00, 13:01, and the click of 13:00.
    assert _values(text, "tailrace_state_rows")[_JOIN] == 3
    noon = 1767268800
    assert _values(text, "tailrace_query_watermark_timestamp_seconds")[NAME,] == noon + 50 * 60
    assert _values(text, "tailrace_stream_watermark_timestamp_seconds") == {
        (NAME, "served_at"): noon + 51 * 60,
        (NAME, "clicked_at"): noon + 50 * 60,
        # A row at the time of the slowest host is on time.
        ("hosts", "t"): noon - 0.001,
    }
    assert _values(text, "tailrace_watermark_host_timestamp_seconds") == {
        ("hosts", "a"): noon,
        ("hosts", "b"): noon + 40 * 60,
    }
    source = next(key for key in _values(text, "tailrace_source_input_rows_total") if key[0] == "hosts")
    assert _values(text, "tailrace_source_input_rows_total")[source] == 3


def test_each_metric_is_in_the_catalog_with_its_kind(port: str, repository: Path) -> None:
    groups = json.loads((repository / "jvm/src/main/resources/io/tailrace/monitor/metrics.json").read_text())
    kinds = {m["series"]: m["kind"] for group in groups for m in group["metrics"]}
    found = re.findall(r"^# TYPE (\S+) (\w+)$", metrics(port)[1], re.MULTILINE)
    assert len(found) > 40
    for series, kind in found:
        assert {"count": "counter", "level": "gauge"}[kinds[series]] == kind


def test_sparks_metrics_system_has_them_too(port: str) -> None:
    gauges: dict[str, dict[str, Any]] = json.loads(metrics(port, "/metrics/json")[1])["gauges"]
    (key,) = [name for name in gauges if name.endswith("tailrace.hosts.watermark_hosts")]
    assert gauges[key] == {"value": 2}
    (key,) = [
        name for name in gauges if name.endswith("ex_am_ples.join_groups_emitted_total.tailraceLabelJoin.0")
    ]
    assert gauges[key] == {"value": 2}


@pytest.mark.contract(any_spark=True)
def test_the_history_has_each_micro_batch(
    port: str, directory: Path, repository: Path, spark: SparkSession
) -> None:
    code = pages.example(repository, "docs/guides/history.md", "history")
    names: dict[str, Any] = {"spark": spark}
    exec(code.replace("s3a://bucket/history", str(directory / "history")), names)  # noqa: S102
    rows = {row["query"]: row.asDict() for row in names["worst"].collect()}
    batches = _values(metrics(port)[1], "tailrace_query_batches_total")[NAME,]
    examples = rows[NAME]
    assert (examples["batches"], examples["late"], examples["waiting"]) == (batches, 1, 5)
    assert {name: row["failures"] for name, row in rows.items()} == {NAME: 0, "hosts": 0, "broken": 1}
    # The last watermark is 12:50 of New Year's Day; the first is that of no row.
    assert examples["lag"] > 86_400
    # It still runs, and the end of another query has written its rows, too.
    assert rows["hosts"]["batches"] >= 1
    single = names["history"].selectExpr("query", "inline(metrics)")
    out = single.where(single.metric == "join_groups_emitted").groupBy("query").sum("value").collect()
    assert [tuple(row) for row in out] == [(NAME, 2.0)]


@pytest.mark.campaign
def test_the_tab_of_sparks_ui_shows_each_query(port: str, browser: Chrome) -> None:
    browser.get(f"http://127.0.0.1:{port}/jobs/")
    (tab,) = browser.find_elements("link text", "Tailrace")
    tab.click()
    sections = browser.find_elements("css selector", "section")
    titles = [section.find_element("css selector", "h4").text for section in sections]
    # What runs comes first.
    assert titles[0] == "hosts"
    assert sorted(titles) == sorted(["hosts", NAME, "broken"])
    by_name = dict(zip(titles, sections, strict=True))
    examples = by_name[NAME]
    assert re.search(r"Ended\. Last micro-batch: \d+\.", examples.text)
    assert "The stream of `clicked_at` holds it" in examples.text
    assert "The 2 hosts of the watermark 'watermark' have the low watermark" in by_name["hosts"].text
    links = browser.find_elements("css selector", "nav[aria-label=Queries] a")
    assert [link.text for link in links] == titles
    links[-1].click()
    assert browser.current_url.endswith(f"#{sections[-1].get_attribute('id')}")
    (chart,) = examples.find_elements("css selector", "figure")
    assert len(chart.find_elements("css selector", "svg[role=img]")) == 3
    bars = chart.find_elements("css selector", "rect")
    assert len(bars) % 3 == 0
    assert len(bars) >= 9
    assert all(bar.size["height"] <= 60 for bar in bars)
    assert all(f"{name}, " in chart.text for name in ("rows read", "buffered rows", "duration"))
    assert re.search(r"^\d\d:\d\d:\d\d$", chart.text, re.MULTILINE)
    assert chart.size["width"] > 500
    with shown_at(browser, 390):
        # Texts keep their size, and the bars take the width that there is.
        assert 300 < chart.size["width"] <= 390
        fonts = browser.execute_script(
            "return [...arguments[0].querySelectorAll('div, span')]"
            ".map(e => parseFloat(getComputedStyle(e).fontSize))",
            chart,
        )
        assert min(fonts) >= 12
        times = sorted(
            chart.find_elements("css selector", "div > span[style*=absolute]"), key=lambda e: e.rect["x"]
        )
        ends = [one.rect["x"] + one.rect["width"] for one in times]
        assert all(end <= other.rect["x"] for end, other in zip(ends, times[1:], strict=False))
    cells = _cells(examples, "tailraceLabelJoin, index 0")
    assert cells["buffered rows"] == "3"
    assert cells["left rows behind the watermark, emitted or not"] == "1"
    assert re.fullmatch(r"[\d,.]+ k?B", cells["the size of the sorted runs that hold the rows"])
    watermark = _cells(examples, "query")["the watermark of the last micro-batch; absent before the first"]
    assert watermark.startswith("2026-01-01T12:50:00Z, ")
    hosts = _cells(by_name["hosts"], "tailrace.watermark")
    assert hosts["how far each of the slowest hosts is: a"].startswith("2026-01-01T12:00:00Z, ")
    assert screenshots.take(browser, "spark-tab", "section").stat().st_size > 10_000
    entries: list[dict[str, str]] = browser.get_log("browser")  # type: ignore[no-untyped-call]
    assert [entry for entry in entries if entry["level"] == "SEVERE"] == []


def _cells(section: WebElement, caption: str) -> dict[str, str]:
    """What and value of the table with a caption."""
    for table in section.find_elements("css selector", "table"):
        if table.find_element("css selector", "caption").text == caption:
            rows = table.find_elements("css selector", "tbody tr")
            cells = [[cell.text for cell in row.find_elements("css selector", "td")] for row in rows]
            return {what: value for what, value, _ in cells}
    raise AssertionError(f"no table {caption} in {section.text}")


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        if os.environ.get("CI") == "true":
            pytest.fail(f"{name} isn't there: .ci/run installs it")
        pytest.skip(f"{name} isn't there")
    return found


def test_each_alert_fires_when_it_should(repository: Path) -> None:
    promtool = _program("promtool")
    rules = repository / "docs/monitoring"
    for command in (["check", "rules", "alerts.yml"], ["test", "rules", "alerts-test.yml"]):
        done = subprocess.run([promtool, *command], cwd=rules, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    names = re.findall(r"alert: (\w+)", (rules / "alerts.yml").read_text())
    tested = re.findall(r"alertname: (\w+), exp_alerts: \[\]", (rules / "alerts-test.yml").read_text())
    assert names
    assert sorted(names) == sorted(tested)


def test_the_limits_of_the_alerts_follow_from_trigger_and_delay(repository: Path) -> None:
    rules = re.split(r"- alert: ", (repository / "docs/monitoring/alerts.yml").read_text())[1:]
    page = (repository / "docs/guides/monitor.md").read_text()
    rows = re.findall(r"^\| `(Tailrace\w+)` \| (\w+) \| (\d+) s \| (.*) \|$", page, re.MULTILINE)
    written = {"limit": "> {0}[ \n]", "range": r"\[{1}m\]", "for": "for: {1}m\n"}
    assert len(rows) == 8
    for alert, which, stated, formula in rows:
        # Of our own page.
        seconds = eval(formula.replace("\N{MULTIPLICATION SIGN}", "*"), {"T": 5 * 60, "D": 30 * 60})  # noqa: S307
        assert seconds == int(stated), (alert, which)
        (rule,) = [rule for rule in rules if rule.startswith(f"{alert}\n")]
        assert re.search(written[which].format(seconds, seconds // 60), rule), (alert, which)
    durations = re.findall(r"> \d{2,}[ \n]|\[\d+m\]|for: \d+m\n", "".join(set(rules)))
    assert len(durations) == len(rows) + 1, "a range stands twice in the rule of late rows"


def _series(text: str) -> set[str]:
    return set(re.findall(r"\btailrace_\w+", text))


def test_dashboard_and_alerts_name_metrics_that_are_there(repository: Path) -> None:
    catalog = (repository / "jvm/src/main/resources/io/tailrace/monitor/metrics.json").read_text()
    for name in ("docs/monitoring/dashboard.json", "docs/monitoring/alerts.yml", "docs/guides/monitor.md"):
        assert _series((repository / name).read_text()) - _series(catalog) == set(), name


def _free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])


def _rows(server: str, expression: str) -> int:
    query = urllib.parse.urlencode({"query": expression.replace("$query", ".+")})
    with urllib.request.urlopen(f"{server}/api/v1/query?{query}") as answer:  # noqa: S310 - our own process
        return len(json.load(answer)["data"]["result"])


def _has_scraped(server: str) -> bool:
    try:
        return _rows(server, "count_over_time(tailrace_query_active[1m]) > 3") == 3
    except OSError:
        return False


@pytest.mark.campaign
def test_a_prometheus_takes_the_page_and_answers_each_panel(
    port: str, repository: Path, tmp_path: Path
) -> None:
    prometheus = _program("prometheus")
    guide = (repository / "docs/guides/monitor.md").read_text()
    scraping = re.search(r"```yaml\n(.*?)```", guide, re.DOTALL)
    assert scraping
    config = scraping[1].replace("driver:4040", f"127.0.0.1:{port}")
    (tmp_path / "prometheus.yml").write_text(f"global: {{scrape_interval: 1s}}\n{config}")
    listen = f"127.0.0.1:{_free_port()}"
    command = [
        prometheus,
        "--config.file=prometheus.yml",
        "--storage.tsdb.path=data",
        f"--web.listen-address={listen}",
    ]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=tmp_path, stderr=log)
    server = f"http://{listen}"
    try:
        deadline = time.monotonic() + 60
        while not _has_scraped(server):
            assert time.monotonic() < deadline, (tmp_path / "log").read_text()
            time.sleep(0.5)
        panels = json.loads((repository / "docs/monitoring/dashboard.json").read_text())["panels"]
        found = {panel["title"]: [_rows(server, t["expr"]) for t in panel["targets"]] for panel in panels}
    finally:
        process.terminate()
        process.wait()
    assert len(found) > 15
    # Those whose operators the application doesn't have are empty, and all are valid.
    for title in ("Who holds it", "Rows read", "Late rows", "Examples out", "Memory of operators"):
        assert found[title][0] > 0, found
    assert found["Queries that run"] == [1]
