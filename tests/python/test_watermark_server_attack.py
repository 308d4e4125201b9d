"""The server under attack: bodies above the limits, odd topologies, rights, decisions to confirm."""

from __future__ import annotations

from http.client import HTTPConnection
from typing import TYPE_CHECKING, Any

import pytest
from starlette.testclient import TestClient

from server_connections import DECIDE, READ, SEND
from tailrace.server import guard, intake
from tailrace.server.ledger import Ledger
from tailrace.server.opening import open_database
from tailrace.server.protocol import OverrideRequest, Report
from tailrace.server.reporter import RefusedError
from tailrace.server.run import build
from tailrace.server.state import Limits
from tailrace.server.store import Store
from tailrace.server.tokens import Tokens
from tailrace.server.views import app_state
from watermark_servers import JSON, T, report, running, sink, source

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tailrace.server.answers import ReportAnswer

BODY = report(source({"h": T}))


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    database = open_database(f"sqlite:///{tmp_path / 'w.db'}")
    yield Ledger(database, Store(database), lambda: T)
    database.close()


def tell(ledger: Ledger, body: dict[str, Any], app: str = "app") -> ReportAnswer:
    (answer,) = ledger.report([(app, Report.model_validate(body))])
    if isinstance(answer, Exception):
        raise answer
    return answer


def decide(ledger: Ledger, action: str, app: str = "app", **fields: object) -> None:
    given = {"operator": "source", "name": "dana", "reason": "a test", **fields}
    ledger.override(app, OverrideRequest.model_validate({"action": action, **given}))


def test_a_body_above_the_limit_gets_a_reason(tmp_path: Path) -> None:
    """C6: what was still being sent was reset, and with it the answer."""
    with running(f"sqlite:///{tmp_path / 'w.db'}") as server:
        body = b'{"client": "' + b"x" * (guard.MAX_BODY + 2**20) + b'"}'
        connection = HTTPConnection("127.0.0.1", server.port, timeout=30)
        connection.request("POST", "/v1/apps/app/reports", body, JSON)
        assert connection.getresponse().status == 413
        connection.close()
        # Without a page of its own, and with another number of this machine.
        head = HTTPConnection("127.0.0.1", server.port, timeout=30)
        head.request("HEAD", "/", headers={"Host": "127.0.0.2:7171"})
        answer = head.getresponse()
        assert (answer.status, answer.read()) == (200, b"")
        head.close()


def test_layers_of_removed_operators_are_fast(ledger: Ledger) -> None:
    """X2: each layer doubled it, for each way through them was gone."""
    layers, wide = 60, 8
    body = report(source({"h": T}))
    names: list[str] = ["source"]
    for layer in range(layers):
        fresh = [f"{layer}-{n}" for n in range(wide)]
        body["operators"] += [{"operator": n, "kind": "operator", "upstreams": names} for n in fresh]
        names = fresh
    body["operators"].append(sink({"0": T - 5}, upstreams=names))
    tell(ledger, body)
    decide(ledger, "remove", operator=None)
    answer = tell(ledger, report(source({"h": T + 1}), sink({"0": T - 4}, upstreams=names)))
    assert answer.global_low_watermark == T - 4
    app = ledger.app("app")
    assert app is not None
    state = app_state(app, ledger.now(), ledger.limits)
    assert [(o.operator, o.upstreams) for o in state.topology] == [("source", []), ("sink", ["source"])]


def test_a_long_chain_of_removed_operators_is_skipped(ledger: Ledger) -> None:
    """X3: RecursionError."""
    chain = [{"operator": "1", "kind": "operator", "upstreams": ["source"]}]
    chain += [{"operator": str(n), "kind": "operator", "upstreams": [str(n - 1)]} for n in range(2, 991)]
    tell(ledger, report(source({"h": T}), *chain, sink({}, upstreams=["990"])))
    decide(ledger, "remove", operator=None)
    back = report(source({"h": T + 3}), sink({}, upstreams=["990"]))
    assert tell(ledger, back).global_low_watermark == T + 3
    app = ledger.app("app")
    assert app is not None
    assert app_state(app, ledger.now(), ledger.limits).topology[1].upstreams == ["source"]


def test_the_failure_of_an_application_leaves_others_alone(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X3: 40 of 48 reports of others failed with it."""
    for app in ("a", "b", "c"):
        tell(ledger, report(source({"h": T})), app)
    take_in = intake.take_in

    def fail(app: Any, *rest: Any) -> None:  # noqa: ANN401  as it is there
        take_in(app, *rest)
        if app.name == "b":
            raise RecursionError("too deep")

    monkeypatch.setattr(intake, "take_in", fail)
    body = Report.model_validate(report(source({"h": T + 5})))
    found = ledger.report([(app, body) for app in ("a", "b", "c", "b")])
    assert [isinstance(answer, RecursionError) for answer in found] == [False, True, False, True]
    monkeypatch.undo()
    assert tell(ledger, report(source({})), "a").global_low_watermark == T + 5
    assert tell(ledger, report(source({})), "b").global_low_watermark == T


def test_applications_operators_and_upstreams_have_limits(tmp_path: Path) -> None:
    database = open_database(f"sqlite:///{tmp_path / 'few.db'}")
    limits = Limits(apps=2, operators=3, edges=3, clients=2)
    ledger = Ledger(database, Store(database), lambda: T, limits=limits)
    for app in ("app", "b"):
        tell(ledger, report(source({"h": T})), app)
    with pytest.raises(RefusedError, match="2 applications"):
        tell(ledger, report(source({"h": T})), "c")
    tell(ledger, report(sink({}), sink({}, name="other")))
    decide(ledger, "remove", operator="other")
    with pytest.raises(RefusedError, match="3 operators, removed ones too"):
        tell(ledger, report(sink({}, name="more")))
    decide(ledger, "purge", operator="other", confirm=True)
    tell(ledger, report(sink({}, name="more")))
    with pytest.raises(RefusedError, match="3 upstreams"):
        tell(ledger, report(sink({}, name="more", upstreams=["a", "b", "c"])))
    tell(ledger, {"client": "2", "operators": []})
    with pytest.raises(RefusedError, match="2 clients"):
        tell(ledger, {"client": "3", "operators": []})
    decide(ledger, "purge", "b", operator=None, confirm=True)
    assert ledger.names() == ["app"]
    assert ledger.app("b") is None
    tell(ledger, report(source({"h": T})), "c")
    database.close()


def test_an_advance_needs_confirmation_and_can_be_undone(ledger: Ledger) -> None:
    tell(ledger, report(source({"h1": T - 60, "h2": T - 9}), sink({})))
    with pytest.raises(RefusedError, match=r"past 1 hosts.*with confirm"):
        decide(ledger, "advance", to=T - 20)
    with pytest.raises(RefusedError, match="nothing to undo"):
        decide(ledger, "undo")
    decide(ledger, "advance", to=T - 20, confirm=True)
    assert tell(ledger, report(source({}), sink({}))).global_low_watermark == T - 20
    decide(ledger, "undo")
    answer = tell(ledger, report(source({"h1": T - 50}), sink({})))
    assert (answer.global_low_watermark, answer.operators["sink"].output_low_watermark) == (T - 50, T - 50)
    app = ledger.app("app")
    assert app is not None
    assert [line[1] for line in ledger.records.audit(app, 9, 0)] == ["undo", "advance"]


def test_a_purge_forgets_for_good(ledger: Ledger) -> None:
    """S5: what had gone wrong stayed, also after `remove`."""
    tell(ledger, report(source({"h": T + 50}), sink({})))
    decide(ledger, "remove")
    assert tell(ledger, report(source({"h": T - 5}), sink({}))).global_low_watermark == T + 50
    with pytest.raises(RefusedError, match="with confirm"):
        decide(ledger, "purge")
    decide(ledger, "purge", confirm=True)
    answer = tell(ledger, report(source({"h": T - 5}), sink({})))
    assert (answer.global_low_watermark, answer.need_roster) == (T - 5, True)
    decide(ledger, "purge", operator=None, confirm=True)
    assert (ledger.names(), ledger.app("app")) == ([], None)
    assert tell(ledger, report(source({"h": T - 9}))).global_low_watermark == T - 9


def test_another_server_sees_a_purge(tmp_path: Path, ledger: Ledger) -> None:
    database = open_database(f"sqlite:///{tmp_path / 'w.db'}")
    other = Ledger(database, Store(database), lambda: T)
    tell(ledger, report(source({"h": T + 50}), sink({})))
    assert tell(other, report(source({}))).global_low_watermark == T + 50
    decide(ledger, "purge", operator=None, confirm=True)
    tell(ledger, report(source({"h": T - 9})))
    assert tell(other, report(source({}))).global_low_watermark == T - 9
    decide(ledger, "purge", operator=None, confirm=True)
    assert tell(other, report(source({"h": T - 20}))).global_low_watermark == T - 20
    database.close()


def test_a_token_of_its_own_for_each_right(tmp_path: Path) -> None:
    tokens = Tokens(READ, SEND, DECIDE)
    override = {"action": "exclude", "operator": "source", "host": "h", "name": "dana", "reason": "a test"}
    requests: list[tuple[str, str, Any, str]] = [
        ("POST", "/v1/apps/app/reports", BODY, "report"),
        ("POST", "/v1/apps/app/overrides", override, "decide"),
        ("GET", "/v1/apps/app", None, "read"),
        ("GET", "/", None, "read"),
        ("GET", "/metrics", None, "read"),
    ]
    rights = {READ: {"read"}, SEND: {"read", "report"}, DECIDE: {"read", "decide"}, "no token of any": set()}
    with TestClient(build(f"sqlite:///{tmp_path / 'w.db'}", tokens), base_url="http://any.example") as client:
        headers = {"Authorization": f"Bearer {SEND}"}
        assert client.post("/v1/apps/app/reports", json=BODY, headers=headers).status_code == 200
        for token, allowed in rights.items():
            for method, path, body, right in requests:
                answer = client.request(method, path, json=body, headers={"Authorization": f"Bearer {token}"})
                expected = 200 if right in allowed else 403 if allowed else 401
                assert answer.status_code == expected, (token, path)
                assert token not in answer.text or right in allowed


def test_a_file_that_was_deleted_is_noticed(tmp_path: Path) -> None:
    """C6: acknowledged reports were lost with it."""
    file = tmp_path / "w.db"
    with running(f"sqlite:///{file}") as server:
        server.post(BODY)
        file.rename(tmp_path / "elsewhere.db")
        for _ in range(2):
            status, answer = server.request("POST", "/v1/apps/app/reports", BODY)
            assert (status, "isn't there any more" in answer["detail"]) == (503, True)
        connection = HTTPConnection("127.0.0.1", server.port, timeout=30)
        connection.request("GET", "/healthz")
        assert connection.getresponse().status == 503
        connection.close()
        assert not file.exists()
