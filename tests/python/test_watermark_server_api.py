"""The server's API: answers, tokens, limits, metrics, and what is documented of it."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from prometheus_client.parser import text_string_to_metric_families
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import status_code_conformance
from starlette.testclient import TestClient

from api_requests import FULL, REPORTS, WINDOW
from tailrace.server.protocol import MAX_TIME
from tailrace.server.run import build
from watermark_servers import ServerProcess, T, report, running, source

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fastapi import FastAPI

TOKEN = "a token of some length"  # noqa: S105  of the tests


@pytest.fixture(scope="module")
def application(tmp_path_factory: pytest.TempPathFactory) -> FastAPI:
    return build(f"sqlite:///{tmp_path_factory.mktemp('api') / 'w.db'}", None)


@pytest.fixture(scope="module")
def client(application: FastAPI) -> Iterator[TestClient]:
    with TestClient(application, base_url="http://127.0.0.1", raise_server_exceptions=False) as client:
        assert client.post(REPORTS, json=FULL).status_code == 200
        yield client


def test_a_report_is_answered_with_the_low_watermarks(client: TestClient) -> None:
    answer = client.post(REPORTS, json=FULL)
    assert answer.json() == {
        "operators": {
            "source": {"input_low_watermark": T + 5, "output_low_watermark": T, "batches": None},
            "sink": {"input_low_watermark": T, "output_low_watermark": T - 1, "batches": None},
        },
        "global_low_watermark": T - 1,
        "excluded_hosts": {},
        "idle_hosts": {},
        "need_roster": False,
        "held_by": {},
        "warnings": [],
    }
    assert "default-src 'self'" in answer.headers["content-security-policy"]


def test_reported_values_can_be_read(client: TestClient) -> None:
    app = client.get("/v1/apps/clicks").json()
    assert (app["global_low_watermark"], app["held_by"]) == (T - 1, ["sink"])
    assert [(o["operator"], o["kind"], o["upstreams"]) for o in app["topology"]] == [
        ("source", "source", []),
        ("sink", "sink", ["source"]),
    ]
    assert app["topology"][0]["lag"] == app["at"] - T
    assert client.get("/v1/apps").json()[0]["app"] == "clicks"
    hosts = client.get("/v1/apps/clicks/hosts?operator=source&limit=1").json()
    assert (hosts["total"], [h["host"] for h in hosts["hosts"]]) == (2, ["h2"])
    assert client.get("/v1/apps/clicks/hosts?offset=1").json()["hosts"][0]["host"] == "h1"
    assert client.get("/v1/apps/clicks/windows").json() == {"windows": [WINDOW]}
    assert client.get("/v1/apps/clicks/windows?operator=source").json() == {"windows": []}
    history = client.get("/v1/apps/clicks/history").json()["series"]
    assert {name: points[0]["low_watermark"] for name, points in history.items()} == {
        "": T - 1,
        "sink": T - 1,
        "source": T,
    }
    assert client.get(f"/v1/apps/clicks/history?since={MAX_TIME}").json() == {"series": {}, "next": None}


def test_overrides_are_applied_and_audited(client: TestClient) -> None:
    name = "/v1/apps/overridden"
    client.post(f"{name}/reports", json=report(source({"h1": T}, roster=["h1", "h2"])))
    exclude = {
        "action": "exclude",
        "operator": "source",
        "host": "h2",
        "name": "dana",
        "reason": "it is gone",
    }
    done = client.post(f"{name}/overrides", json=exclude)
    assert done.status_code == 200
    assert client.get(f"{name}/overrides").json() == {"overrides": [done.json()]}
    assert client.get(name).json()["global_low_watermark"] == T
    again = client.post(f"{name}/reports", json=report(source({})))
    assert again.json()["excluded_hosts"] == {"source": ["h2"]}
    assert client.post(f"{name}/overrides", json={**exclude, "action": "include"}).status_code == 200
    assert client.post(f"{name}/reports", json=report(source({}))).json()["excluded_hosts"] == {}
    remove = {"action": "remove", "operator": "source", "name": "dana", "reason": "renamed"}
    assert client.post(f"{name}/overrides", json=remove).status_code == 200
    assert client.get(name).json()["topology"] == []
    assert "overridden" not in [app["app"] for app in client.get("/v1/apps").json()]
    client.post(f"{name}/reports", json=report(source({})))
    every = client.post(f"{name}/overrides", json={**remove, "operator": None})
    assert (every.status_code, every.json()["operator"]) == (200, "")
    assert client.get(f"{name}/overrides?limit=1").json() == {"overrides": [every.json()]}


def test_hosts_above_the_limit_hold_the_source(client: TestClient) -> None:
    path = "/v1/apps/many/reports"
    progress = {f"host-{n:06d}.rack-07.example.net": T for n in range(100_000)}
    assert client.post(path, json=report(source(progress))).status_code == 200
    one_more = client.post(path, json=report(source({**dict.fromkeys(progress, T + 5), "one more": T})))
    assert one_more.status_code == 422, "of one report"
    held = client.post(path, json=report(source({next(iter(progress)): T + 5, "one more": T + 9})))
    assert held.status_code == 200
    assert "'one more'" in held.json()["warnings"][0]
    assert client.get("/v1/apps/many").json()["topology"][0]["reporters"][0]["warnings"] != []


def test_without_a_token_only_loopback_names_are_served(client: TestClient) -> None:
    for host, status in {
        "127.0.0.1:7171": 200,
        "localhost": 200,
        "[::1]:7171": 200,
        "[::1]": 200,
        "evil.example:7171": 421,
        "": 421,
    }.items():
        assert client.get("/v1/apps", headers={"Host": host}).status_code == status, host


def test_a_request_needs_the_right_token(tmp_path: Path) -> None:
    password = base64.b64encode(f"anybody:{TOKEN}".encode()).decode()
    good = [f"Bearer {TOKEN}", f"bearer {TOKEN}", f"Basic {password}"]
    bad = ["", "Bearer", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", "Basic !", f"Token {TOKEN}", TOKEN]
    with TestClient(build(f"sqlite:///{tmp_path / 'w.db'}", TOKEN), base_url="http://any.example") as client:
        for value in bad:
            for path in ("/", "/v1/apps", "/metrics", "/docs", "/openapi.json", "/static/page.js"):
                answer = client.get(path, headers={"Authorization": value} if value else {})
                assert answer.status_code == 401, (path, value)
                assert "bearer token" in answer.json()["detail"]
                assert "Bearer" in answer.headers["www-authenticate"]
            assert client.post(REPORTS, json=FULL, headers={"Authorization": value}).status_code == 401
        for value in good:
            assert client.get("/v1/apps", headers={"Authorization": value}).json() == []
        assert client.post(REPORTS, json=FULL, headers={"Authorization": good[0]}).status_code == 200
        assert client.get("/healthz").text == "ok\n"


def test_metrics_are_in_prometheus_format(client: TestClient) -> None:
    client.post('/v1/apps/a "quoted" \\ one/reports', json=FULL)
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = answer.text.splitlines()
    line = re.compile(r'[a-z_]+(\{([a-z]+="([^"\\]|\\.)*",?)+\})? -?[0-9.e+-]+')
    types = re.compile(r"# (HELP|TYPE) tailrace_watermark_[a-z_]+ .+")
    assert [text for text in lines if not line.fullmatch(text) and not types.fullmatch(text)] == []
    values = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }
    assert values["tailrace_watermark_global_low_watermark_seconds", "clicks"] == (T - 1) / 1e6
    assert 'tailrace_watermark_hosts{app="clicks",operator="source"} 2.0' in lines
    assert 'tailrace_watermark_hosts_allowed{app="a \\"quoted\\" \\\\ one",operator="source"} 1.0' in lines
    assert any(text.startswith("tailrace_watermark_reports_total ") for text in lines)


def test_the_api_page_names_every_route_and_type(client: TestClient) -> None:
    page = client.get("/docs").text
    description = client.get("/openapi.json").json()
    for path in description["paths"]:
        assert path in page
    for name in description["components"]["schemas"]:
        assert f'id="{name}"' in page
    assert "https://" not in page
    assert "<script" not in page


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with running(f"sqlite:///{tmp_path_factory.mktemp('fuzz') / 'w.db'}") as server:
        server.post(FULL)
        yield server


@pytest.mark.slow
@pytest.mark.parametrize(
    "mode",
    [GenerationMode.POSITIVE, pytest.param(GenerationMode.NEGATIVE, marks=pytest.mark.campaign)],
)
def test_no_request_of_the_schema_breaks_the_server(fuzzed: ServerProcess, mode: GenerationMode) -> None:
    schema = schemathesis.openapi.from_url(f"{fuzzed.url}/openapi.json")
    operations = [found.ok() for found in schema.get_all_operations() if isinstance(found, Ok)]
    assert len(operations) == 8
    for operation in operations:
        try:
            strategy = operation.as_strategy(generation_mode=mode)
            _fuzz(strategy)
        except Unsatisfiable:
            # A route without parameters has no wrong ones.
            assert (operation.path, mode) == ("/v1/apps", GenerationMode.NEGATIVE)
    assert fuzzed.request("GET", "/v1/apps/app")[0] == 200


def _fuzz(cases: st.SearchStrategy[schemathesis.Case[Any]]) -> None:
    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(case=cases)
    def ask(case: schemathesis.Case[Any]) -> None:
        case.call_and_validate(checks=[not_a_server_error, status_code_conformance])

    ask()
