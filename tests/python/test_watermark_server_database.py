"""The ledger's database: how much it keeps, what is pruned, and the state after a failed commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ledger_reports import decide, low, tell
from tailrace.server.database import DatabaseError
from tailrace.server.ledger import HISTORY_KEPT
from tailrace.server.store import Store
from tailrace.server.views import window_page
from watermark_servers import SECOND, T, report, sink, source

if TYPE_CHECKING:
    from pathlib import Path

    from watermark_ledgers import Ledgers


def test_the_greatest_report_of_a_window_stands_in_any_order(ledgers: Ledgers) -> None:
    ledger = ledgers.make()
    tell(ledger, report(source({"h": T})))
    base = {"operator": "source", "start": T, "end": T + 60, "expected": 3, "passed": 2}
    missing = [{"host": "h9", "progress": None}]
    for late in (4, 12, 7):
        tell(ledger, report(windows=[{**base, "late_rows": late, "missing": missing}]))
    app = ledger.app("app")
    assert app is not None
    (window,) = window_page(ledger.records.windows(app, None, 10, 0)).windows
    assert (window.late_rows, window.passed, window.missing[0].host) == (12, 2, "h9")


def test_history_is_sampled_and_old_points_are_deleted(ledgers: Ledgers) -> None:
    ledger = ledgers.make()
    for second in (0, 1, 2, 12):
        ledgers.clock.now = T + second * SECOND
        tell(ledger, report(source({"h": T + second})))
    app = ledger.app("app")
    assert app is not None
    points = [(T, T), (T + 12 * SECOND, T + 12)]
    assert sorted(ledger.records.history(app, 0)[0]) == [
        (name, *point) for name in ("", "source") for point in points
    ]
    # For a page all of the last hour, and one in six of what is older.
    for since, shown_points in ((T - 5 * 3_600 * SECOND, points), (T, points[:1])):
        found = ledger.records.recent(app, since, ["source", "nobody"])
        assert [row[1:] for row in found] == shown_points
    ledgers.clock.now = T + 2 * HISTORY_KEPT
    tell(ledger, report(source({"h": T + 99})))
    assert [row[2] for row in ledger.records.history(app, 0)[0]] == [T + 99, T + 99]


def test_only_the_latest_windows_are_kept(ledgers: Ledgers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tailrace.server.ledger.WINDOWS_KEPT", 3)
    ledger = ledgers.make()
    windows = [
        {"operator": "source", "start": T + n, "end": T + n + 1, "expected": 1, "passed": 1} for n in range(9)
    ]
    tell(ledger, report(source({"h": T}), windows=windows))
    ledgers.clock.wait(HISTORY_KEPT)
    tell(ledger, report(source({"h": T})))
    app = ledger.app("app")
    assert app is not None
    assert [row[1] for row in ledger.records.windows(app, None, 10, 0)] == [T + 8, T + 7, T + 6]


def test_the_latest_decisions_are_kept(ledgers: Ledgers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tailrace.server.ledger.AUDIT_KEPT", 3)
    ledger = ledgers.make()
    for name in ("app", "other"):
        tell(ledger, report(source({"h": T}, roster=["h"])), name)
    app = ledger.app("app")
    assert app is not None
    for step in range(5):
        decide(ledger, action="include" if step % 2 else "exclude", host="h", reason=f"step {step}")
    assert len(ledger.records.audit(app, 99, 0)) == 5
    ledgers.clock.wait(HISTORY_KEPT)
    tell(ledger, report(source({"h": T})), "other")
    assert len(ledger.records.audit(app, 99, 0)) == 5
    tell(ledger, report(source({"h": T})))
    assert [row[6] for row in ledger.records.audit(app, 99, 0)] == ["step 4", "step 3", "step 2"]


def test_windows_are_pruned_when_there_are_many(ledgers: Ledgers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tailrace.server.ledger.WINDOWS_KEPT", 3)
    monkeypatch.setattr("tailrace.server.ledger._WINDOWS_BETWEEN", 10)
    ledger = ledgers.make()
    for step in range(4):
        windows = [
            {"operator": "source", "start": T + n, "end": T + n + 1, "expected": 1, "passed": 1}
            for n in range(step * 4, step * 4 + 4)
        ]
        tell(ledger, report(source({"h": T}), windows=windows))
    app = ledger.app("app")
    assert app is not None
    assert len(ledger.records.windows(app, None, 99, 0)) == 3


def test_after_a_failed_commit_memory_equals_the_database(
    ledgers: Ledgers, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = ledgers.make()
    tell(ledger, report(source({"h": T}, roster=["h"])))
    put_app = Store.put_app

    def fail(*_: object) -> None:
        raise DatabaseError("the disk is full.")

    monkeypatch.setattr(Store, "put_app", fail)
    with pytest.raises(DatabaseError, match="disk is full"):
        tell(ledger, report(source({"h": T + 9})))
    monkeypatch.setattr(Store, "put_app", put_app)
    assert low(tell(ledger, report(source({"h": T + 2})))) == T + 2


def test_the_database_itself_only_raises_maxima(ledgers: Ledgers) -> None:
    ledger = ledgers.make()
    tell(ledger, report(source({"h": T + 5}), sink({"0": T + 3})))
    app = ledger.app("app")
    assert app is not None
    ledger.store.put_progress(app, app.operators["source"].reporters["query"], {"h": T + 1})
    ledger.store.put_groups(app, app.operators["sink"].reporters["query"], {"0": T + 1})
    found = ledgers.make().app("app")
    assert found is not None
    assert found.operators["source"].hosts().newest() == T + 5
    assert found.operators["sink"].reporters["query"].groups == {"0": T + 3}


def test_tidying_up_copies_the_log_into_the_file(ledgers: Ledgers, tmp_path: Path) -> None:
    ledger = ledgers.make()
    tell(ledger, report(source({f"h{n}": T for n in range(5_000)})))
    before = (tmp_path / "w.db").stat().st_size
    ledger.tidy()
    assert (tmp_path / "w.db").stat().st_size > before + 100_000
