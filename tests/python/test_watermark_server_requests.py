"""Requests that the server refuses: bad values, bodies and pages of other sites. None changes anything."""

from __future__ import annotations

import copy
import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from api_requests import FULL, OVERRIDES, REPORTS, WINDOW
from tailrace.server import guard
from tailrace.server.database import DatabaseError
from tailrace.server.protocol import MAX_TIME
from tailrace.server.run import build
from tailrace.server.store import Store
from watermark_servers import T, report, sink, source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastapi import FastAPI


@pytest.fixture(scope="module")
def application(tmp_path_factory: pytest.TempPathFactory) -> FastAPI:
    return build(f"sqlite:///{tmp_path_factory.mktemp('api') / 'w.db'}", None)


@pytest.fixture(scope="module")
def client(application: FastAPI) -> Iterator[TestClient]:
    with TestClient(application, base_url="http://127.0.0.1", raise_server_exceptions=False) as client:
        assert client.post(REPORTS, json=FULL).status_code == 200
        yield client


OVERRIDE = {
    "action": "advance",
    "operator": "sink",
    "to": T,
    "confirm": True,
    "name": "dana",
    "reason": "a test",
}


def everything(client: TestClient) -> list[Any]:
    """All that the API shows, but the server's time and what follows of it."""
    names = [app["app"] for app in client.get("/v1/apps").json()]
    found: list[Any] = [names]
    for path in ("", "/hosts", "/windows", "/overrides"):
        text = json.dumps(client.get(f"/v1/apps/clicks{path}").json())
        found.append(re.sub(r'"(lag|at|heard_at)": (-?\d+|null)', "", text))
    return found


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/v1/apps/nobody", None, 404),
        ("GET", "/v1/apps/nobody/hosts", None, 404),
        ("GET", "/v1/apps/clicks/hosts?operator=sink", None, 409),
        ("GET", "/v1/apps/clicks/hosts?limit=0", None, 422),
        ("GET", "/v1/apps/clicks/hosts?limit=1001", None, 422),
        ("GET", "/v1/apps/%00/hosts", None, 422),
        ("POST", "/v1/apps/" + "x" * 201 + "/reports", FULL, 422),
        ("POST", "/v1/apps/a%0Ab/reports", FULL, 422),
        ("POST", "/v1/apps/nobody/overrides", OVERRIDE, 404),
        ("POST", OVERRIDES, {**OVERRIDE, "reason": ""}, 422),
        ("POST", OVERRIDES, {k: v for k, v in OVERRIDE.items() if k != "name"}, 422),
        ("POST", OVERRIDES, {**OVERRIDE, "host": "h1"}, 422),
        ("POST", OVERRIDES, {**OVERRIDE, "action": "remove"}, 422),
        ("POST", OVERRIDES, {**OVERRIDE, "operator": None}, 422),
        ("POST", OVERRIDES, {**OVERRIDE, "to": MAX_TIME}, 409),
        ("POST", OVERRIDES, {**OVERRIDE, "confirm": False}, 409),
        ("POST", OVERRIDES, {**OVERRIDE, "client": "query"}, 422),
        ("POST", OVERRIDES, {**OVERRIDE, "operator": "x"}, 409),
        ("POST", REPORTS, report(source({}), source({})), 422),
        ("POST", REPORTS, report(source({}, roster=["a", "a"])), 422),
        ("POST", REPORTS, report(source({}, low_watermarks={"0": T})), 422),
        ("POST", REPORTS, report({**sink({}), "progress": {"h": T}}), 422),
        ("POST", REPORTS, report(sink({}, upstreams=[])), 422),
        ("POST", REPORTS, report(sink({}, upstreams=["sink"])), 409),
        ("POST", REPORTS, report(windows=[{**WINDOW, "start": T}]), 422),
        ("POST", REPORTS, report(windows=[{**WINDOW, "passed": 3}]), 422),
        ("POST", REPORTS, report(windows=[{**WINDOW, "operator": "x"}]), 409),
        ("PUT", REPORTS, FULL, 405),
    ],
)
def test_a_refusal_has_a_reason_and_changes_nothing(
    client: TestClient, method: str, path: str, body: object, status: int
) -> None:
    before = everything(client)
    answer = client.request(method, path, json=body)
    assert (answer.status_code, set(answer.json())) == (status, {"detail"})
    assert len(answer.json()["detail"]) > 5
    assert everything(client) == before


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:  # noqa: ANN401  it is JSON
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield (*path, key)
        yield from _places(item, (*path, key))


# Nothing that any place of a report may have.
_BAD_NUMBERS = (-MAX_TIME - 1, MAX_TIME + 1, 10**30, 1.5, 1e300, True)
_BAD_TEXTS = ("", "\x00", "a\nb", "x" * 201, "1.5", "99.9%", "\ud800")
_BAD_TABLES: tuple[dict[str, object], ...] = (
    {},
    {"a": -MAX_TIME - 1},
    {"a": "1"},
)
_BAD = st.sampled_from([*_BAD_NUMBERS, *_BAD_TEXTS, *_BAD_TABLES, [[]], [1], [None]])


@pytest.fixture(scope="module")
def shown(client: TestClient) -> list[Any]:
    """The state that any number of refused reports must leave as it is."""
    return everything(client)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(place=st.sampled_from(list(_places(FULL))), bad=_BAD, as_more=st.booleans())
def test_a_report_with_one_bad_value_is_refused(
    client: TestClient, shown: list[Any], place: tuple[Any, ...], bad: object, as_more: bool
) -> None:
    body = copy.deepcopy(FULL)
    holder: Any = body
    for key in place[:-1]:
        holder = holder[key]
    if as_more and isinstance(holder, dict):
        holder["of no protocol"] = bad
    else:
        holder[place[-1]] = bad
    if body == FULL or _is_good(body, place, bad):
        return
    answer = client.post(REPORTS, content=json.dumps(body), headers={"Content-Type": "application/json"})
    assert (answer.status_code, set(answer.json())) == (422, {"detail"}), body
    assert everything(client) == shown


def _is_good(body: dict[str, Any], place: tuple[Any, ...], bad: object) -> bool:
    # An empty table or a table of a time is one; a name may look like a number or a share.
    last = place[-1]
    if "of no protocol" in json.dumps(body):
        return False
    if last in {"progress", "low_watermarks"} and isinstance(bad, dict):
        return bad == {}
    # A host is called what a row says, and no row stops a query.
    if (last == "host" or place[-2:-1] == ("roster",)) and isinstance(bad, str):
        return True
    return last in {"client", "operator", 0} and bad in ("1.5", "99.9%") and len(place) != 2


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"", 422),
        (b"{", 422),
        (b"[" * 100_000, 400),
        (b"\xff\xfe", 422),
        (b"1" * 5_000, 400),
        (b'{"client": NaN}', 422),
        (b"null", 422),
    ],
)
def test_invalid_json_is_refused(client: TestClient, content: bytes, status: int) -> None:
    before = everything(client)
    answer = client.post(REPORTS, content=content, headers={"Content-Type": "application/json"})
    assert (answer.status_code, set(answer.json())) == (status, {"detail"})
    assert everything(client) == before


def test_a_form_of_another_site_is_refused(client: TestClient) -> None:
    # A browser sends such a type across sites without asking; JSON it doesn't.
    answer = client.post(REPORTS, content=json.dumps(FULL), headers={"Content-Type": "text/plain"})
    assert answer.status_code == 422


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "https://behind-a-proxy.example"}, 200),
        ({"Sec-Fetch-Site": "none"}, 200),
        ({"Origin": "http://127.0.0.1"}, 200),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "http://127.0.0.1:8080"}, 403),
        ({"Origin": "null"}, 403),
    ],
)
def test_a_page_of_another_site_changes_nothing(
    client: TestClient, headers: dict[str, str], status: int
) -> None:
    before = everything(client)
    assert client.post(REPORTS, json=FULL, headers=headers).status_code == status
    # A report that is taken has a time.
    assert (everything(client) == before) == (status == 403)
    assert client.get("/v1/apps", headers=headers).status_code == 200


def test_a_body_that_is_too_large_is_cut_off(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "MAX_BODY", 2_000)
    large = json.dumps(report(source({f"host-{n}": T for n in range(200)})))
    before = everything(client)
    told = client.post(REPORTS, content=large, headers={"Content-Type": "application/json"})
    # Without a length: the size shows only while it comes.
    chunks = (large[i : i + 500].encode() for i in range(0, len(large), 500))
    untold = client.post(REPORTS, content=chunks, headers={"Content-Type": "application/json"})
    assert (told.status_code, untold.status_code) == (413, 413)
    assert "2,000 bytes" in told.json()["detail"]
    assert everything(client) == before


def test_a_database_that_fails_is_a_503(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise DatabaseError("SQLite: disk I/O error.")

    monkeypatch.setattr(Store, "put_app", fail)
    answer = client.post(REPORTS, json=FULL)
    assert (answer.status_code, answer.json()) == (503, {"detail": "SQLite: disk I/O error."})
    monkeypatch.undo()
    assert client.post(REPORTS, json=FULL).status_code == 200
