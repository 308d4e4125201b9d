"""The server below a path, behind a proxy that takes the path off and behind one that doesn't."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from typing import TYPE_CHECKING
from urllib.parse import urljoin

import pytest
from starlette.testclient import TestClient

from browsers import texts
from proxies import proxied
from tailrace.commands.cli import main
from tailrace.errors import TailraceServerError
from tailrace.server.prefix import parse_prefix
from tailrace.server.run import Options, build
from waiting import wait_for
from watermark_servers import JSON, ServerProcess, T, report, running, sink, source
from window_logs import Logs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession
    from selenium.webdriver import Chrome

PREFIX = "/teams/watermarks"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    store = f"sqlite:///{tmp_path_factory.mktemp('proxy') / 'w.db'}"
    with running(store, ["--path-prefix", f"{PREFIX}/"]) as server:
        server.post(report(source({"web-1": T, "web-2": T + 5}), sink({"0": T + 9})), app="a%20b")
        yield server


@pytest.fixture(scope="module", params=[True, False], ids=["strips", "passes on"])
def url(request: pytest.FixtureRequest, server: ServerProcess) -> Iterator[str]:
    with proxied(server.port, PREFIX, strips=request.param) as url:
        yield url


def got(url: str, body: object = None) -> tuple[int, str]:
    given = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, given, JSON)  # noqa: S310  of this test's proxy
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310  the same
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_the_empty_page_shows_the_address_that_the_browser_has(tmp_path: Path) -> None:
    with running(f"sqlite:///{tmp_path / 'w.db'}", ["--path-prefix", PREFIX]) as server:
        status, page = got(f"{server.url}{PREFIX}/")
    assert status == 200
    assert f'server="{server.url}{PREFIX}"' in page
    assert ":7171" not in page


def test_a_query_reports_through_the_proxy(
    spark: SparkSession, tmp_path: Path, server: ServerProcess, url: str
) -> None:
    app = f"queries-{tmp_path.name}"
    logs = Logs(spark, tmp_path, source={"server": f"{url}/", "app": app, "operator": "logs"})
    logs.add(("a", 1), ("b", 2))
    writer = logs.waiting().writeStream.format("noop").option("checkpointLocation", f"{tmp_path}/checkpoint")
    writer.trigger(availableNow=True).start().awaitTermination()
    _, state = server.request("GET", f"{PREFIX}/v1/apps/{app}")
    assert [operator["operator"] for operator in state["topology"]] == ["logs", "logs/sink"]


def test_pages_files_and_links_are_below_the_prefix(url: str) -> None:
    for start in ("", "/", "/?app=a+b", "/docs"):
        status, page = got(url + start)
        assert status == 200
        links = {urljoin(url + start, link) for link in re.findall(r'(?:href|src)="([^"]+)"', page)}
        assert len(links) >= 4
        for link in links:
            # A link to a part of the page itself is no request.
            assert link.startswith(url), (start, link)
            assert got(link.partition("#")[0])[0] == 200, (start, link)


def test_the_api_and_its_description_are_below_the_prefix(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    description = json.loads(got(f"{url}/openapi.json")[1])
    assert description["servers"] == [{"url": PREFIX}]
    assert got(f"{url}/healthz") == (200, "ok\n")
    assert got(f"{url}/readyz") == (200, "ok\n")
    assert got(f"{url}/metrics")[0] == 200
    assert '"sections"' in got(f"{url}/page.json?app=a%20b")[1]
    assert got(f"{url}/v1/apps/a%20b/reports", report(source({"web-1": T + 1})))[0] == 200
    override = {
        "action": "exclude",
        "operator": "source",
        "host": "web-2",
        "name": "dana",
        "reason": "a test",
    }
    assert got(f"{url}/consequence.json?app=a%20b", override)[0] == 200
    assert got(f"{url}/v1/apps/a%20b/overrides", override)[0] == 200
    assert got(f"{url}/v1/apps/nobody")[0] == 404
    assert main(["watermarks", url]) == 0
    assert "application    a b" in capsys.readouterr().out


@pytest.mark.campaign
def test_the_page_works_below_the_prefix(url: str, browser: Chrome) -> None:
    browser.get(f"{url}/?app=a+b")
    wait_for(lambda: texts(browser, "#live") == ["live"], "the page is live")
    browser.find_element("css selector", "#find-hosts input[name=search]").send_keys("web-2")
    wait_for(lambda: len(texts(browser, "#hosts tbody tr")) == 1, "the search")
    browser.execute_script(
        """const form = document.getElementById("override");
        for (const [name, value] of Object.entries(arguments[0])) form.elements[name].value = value;""",
        {"operator": "source", "host": "web-1", "name": "dana", "reason": "a test"},
    )
    browser.find_element("css selector", "#override > button").click()
    wait_for(lambda: "'web-1'" in texts(browser, "#confirm-what")[0], "what will happen")
    browser.find_element("css selector", "#confirm-yes").click()
    wait_for(lambda: texts(browser, "#override output") == ["done"], "it is done")
    problems = [line for line in browser.get_log("browser") if line["level"] == "SEVERE"]  # type: ignore[no-untyped-call]
    assert problems == []


def test_rights_are_of_the_path_without_the_prefix(tmp_path: Path) -> None:
    options = Options(path_prefix=PREFIX)
    token = "a token of some length"  # noqa: S105  of the tests
    with TestClient(
        build(f"sqlite:///{tmp_path / 'w.db'}", token, options), base_url="http://a.example"
    ) as client:
        for start in ("", PREFIX):
            assert client.get(f"{start}/healthz").status_code == 200
            assert client.get(f"{start}/v1/apps").status_code == 401
        assert client.get(f"{PREFIX}x/healthz").status_code == 401


@pytest.mark.parametrize(
    "given", ["watermarks", "/a b", "/a//b", "/..", "/a/../b", "/a?b", '/"', "//a.example"]
)
def test_an_invalid_prefix_is_refused(given: str, tmp_path: Path) -> None:
    with pytest.raises(TailraceServerError, match="TAILRACE_SERVER_PREFIX_INVALID"):
        build(f"sqlite:///{tmp_path / 'w.db'}", None, Options(path_prefix=given))
    assert not (tmp_path / "w.db").exists()


def test_a_prefix_may_end_in_a_slash() -> None:
    assert [parse_prefix(given) for given in ("", "/", "/a/", "/a/b.c")] == ["", "", "/a", "/a/b.c"]
