"""The server's limits: errors of a body, rows that a report reads, reporters, long history."""

from __future__ import annotations

import json
import sqlite3
import threading
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError
from starlette.testclient import TestClient

from tailrace.errors import TailraceServerError
from tailrace.server import hostpages, loading, parsing
from tailrace.server.ledger import Ledger
from tailrace.server.opening import open_database
from tailrace.server.protocol import Report
from tailrace.server.reporter import RefusedError
from tailrace.server.run import build
from tailrace.server.state import Limits
from tailrace.server.store import Store
from tailrace.server.tokens import read_tokens
from watermark_servers import T, report, sink, source

if TYPE_CHECKING:
    from pathlib import Path

BODY: dict[str, Any] = report(source({"h": T}))
REPORTS = "/v1/apps/app/reports"
EXTRA: dict[str, Any] = {f"x{n}": 1 for n in range(5_000)}
WINDOW = {"operator": "s", "start": 1, "end": 2, "expected": 1, "passed": 1}


def take(ledger: Ledger, body: dict[str, Any], app: str = "app") -> None:
    (answer,) = ledger.report([(app, Report.model_validate(body))])
    if isinstance(answer, Exception):
        raise answer


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({**BODY, **EXTRA}, "'x0' is no field"),
        (report({**source({}), **EXTRA}), "'x0' is no field"),
        (report(*[source({"h": "x"}, name=f"s{n}") for n in range(1_000)]), "valid integer"),  # type: ignore[dict-item]
        (report(source({f"h{n}": -(2**53) for n in range(5_000)})), "of 'h0' it isn't a time"),
        (report(source({f"h{n}": True for n in range(5_000)})), "of 'h0' it isn't a time"),
        (report(source({f"h{n}": T for n in range(100_001)})), "more than 100,000"),
        (report(source({f"\ud800{n}": T for n in range(5_000)})), "no text"),
        (report(source({}, roster=[1] * 5_000)), "valid string"),  # type: ignore[list-item]
        (report(source({}, reads=[1] * 5_000)), "valid string"),
        (report(sink({f"{n}\n": T for n in range(5_000)})), "control characters"),
        (report(sink({"": T})), "at least 1 character"),
        (report(sink({}, upstreams=["\n"] * 1_000)), "match pattern"),
        (report(windows=[{**WINDOW, "missing": [{}] * 1_000}] * 1_000), "required"),
        (report(windows=[{**WINDOW, "missing": [EXTRA]}]), "is no field"),
    ],
    # A body may have megabytes: it is no part of the test's name.
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_invalid_body_causes_few_errors(body: dict[str, Any], told: str) -> None:
    """A million of them took seconds, in which nobody was answered, and a gigabyte."""
    with pytest.raises(ValidationError, match=told) as refused:
        Report.model_validate(json.loads(json.dumps(body)))
    assert refused.value.error_count() < 10


def test_a_large_report_doesnt_delay_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[bool] = []
    parse = parsing._parse

    def spied(body: bytes) -> Report:
        found.append(threading.current_thread().name.startswith("watermark-parser"))
        return parse(body)

    monkeypatch.setattr(parsing, "_parse", spied)
    large = report(source({f"host-{n:06d}": T for n in range(5_000)}))
    wrong = report(source({f"host-{n:06d}": T for n in range(5_000)}, roster=[1]))  # type: ignore[list-item]
    with TestClient(build(f"sqlite:///{tmp_path / 'w.db'}", None), base_url="http://127.0.0.1") as client:
        assert [client.post(REPORTS, json=body).status_code for body in (BODY, large, wrong)] == [
            200,
            200,
            422,
        ]
        assert client.post(REPORTS, json=wrong).json()["detail"].startswith("body.operators.0.roster.0: ")
        assert len(client.get("/v1/apps/app/hosts?limit=1000").json()["hosts"]) == 1_000
    assert found == [False, True, True, True]


def test_a_report_waits_for_no_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, answered = threading.Event(), threading.Event()
    host_page = hostpages.host_page

    def slow(*arguments: Any) -> Any:  # noqa: ANN401 - the view's own
        asked.set()
        assert answered.wait(30)
        return host_page(*arguments)

    monkeypatch.setattr(hostpages, "host_page", slow)
    with TestClient(build(f"sqlite:///{tmp_path / 'w.db'}", None), base_url="http://127.0.0.1") as client:
        assert client.post(REPORTS, json=BODY).status_code == 200
        pages: list[int] = []
        reader = threading.Thread(
            target=lambda: pages.append(client.get("/v1/apps/app/hosts").status_code), daemon=True
        )
        reader.start()
        assert asked.wait(30)
        assert client.post(REPORTS, json=BODY).status_code == 200
        assert not pages
        answered.set()
        reader.join(30)
    assert pages == [200]


def test_a_report_reads_rows_of_its_application_alone(tmp_path: Path) -> None:
    """Reporters of other applications were read in each transaction, and all audit lines by each page."""
    file = tmp_path / "w.db"
    open_database(f"sqlite:///{file}").close()
    with sqlite3.connect(file) as connection:
        for index in ("reporter_of_app", "audit_of_app"):
            connection.execute(f"DROP INDEX {index}")
    connection.close()
    # As a database that was made before there were any.
    open_database(f"sqlite:///{file}").close()
    connection = sqlite3.connect(file)
    queries = {
        "reporter": (loading._REPORTER, (1, 1)),
        "audit": ("SELECT at FROM audit WHERE app_id = ? ORDER BY id DESC LIMIT ? OFFSET ?", (1, 1, 1)),
    }
    for table, (query, values) in queries.items():
        plan = [str(row[3]) for row in connection.execute(f"EXPLAIN QUERY PLAN {query}", values)]
        assert not [step for step in plan if step.startswith(f"SCAN {table}")], plan
        assert any(f"{table}_of_app" in step for step in plan), plan
    connection.close()


def test_reporters_and_what_they_read_have_limits(tmp_path: Path) -> None:
    database = open_database(f"sqlite:///{tmp_path / 'few.db'}")
    ledger = Ledger(database, Store(database), lambda: T, limits=Limits(reporters=3, reads=5))
    take(ledger, report(source({}, reads=["a", "b"]), sink({}), client="1"))
    take(ledger, report(source({}, name="other", reads=["c", "d"]), client="2"))
    with pytest.raises(RefusedError, match="3 reporters in all"):
        take(ledger, report(sink({}), client="2"))
    with pytest.raises(RefusedError, match=r"5 inputs.*topics"):
        take(ledger, report(source({}, name="other", reads=["c", "d", "e", "f"]), client="2"))
    # Known reporters may always report.
    take(ledger, report(source({"h": T}, name="other", reads=["c", "d", "e"]), client="2"))
    take(ledger, report(source({"h": T}, reads=["a"]), sink({}), client="1"))
    database.close()


def test_a_right_without_a_token_is_named(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("a token of some length")
    with pytest.raises(TailraceServerError, match="read or decide") as error:
        read_tokens(None, None, tmp_path / "token", None)
    assert error.value.parameters == {"right": "read, decide"}


def test_long_history_comes_in_parts(tmp_path: Path) -> None:
    """All of it at once was a gigabyte, for who may only read."""
    database = open_database(f"sqlite:///{tmp_path / 'w.db'}")
    moments = iter(range(T, T + 10**9, 10**7))
    clock = [T]
    ledger = Ledger(database, Store(database), lambda: clock[0])
    for n in range(4):
        clock[0] = next(moments)
        take(ledger, report(source({"h": T + n}), sink({})))
    app = ledger.app("app")
    assert app is not None
    whole, after = ledger.records.history(app, 0)
    assert (len(whole), after) == (12, None)
    since, found = 0, list[Any]()
    for _ in range(4):
        rows, after = ledger.records.history(app, since, most=4)
        found += rows
        since = after or since
    # A part ends between two moments, so that nothing is told twice or left out.
    assert (sorted(found), after) == (sorted(whole), None)
    mine, _ = ledger.records.history(app, 0, "sink")
    assert [row[0] for row in mine] == ["sink"] * 4
    database.close()
