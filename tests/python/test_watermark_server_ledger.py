"""The state behind the server: what reports make of it, whatever their order, and what is in the database."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.server.answers import AppState, ReportAnswer
from tailrace.server.database import DatabaseError
from tailrace.server.ledger import HISTORY_KEPT, Ledger
from tailrace.server.opening import open_database
from tailrace.server.protocol import OverrideRequest, Report
from tailrace.server.reporter import RefusedError
from tailrace.server.store import Store
from tailrace.server.views import app_state, host_page, window_page
from watermark_servers import SECOND, T, report, sink, source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tailrace.server.state import App


class Clock:
    now = T

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def make(tmp_path: Path, clock: Clock) -> Iterator[Callable[[], Ledger]]:
    """Ledgers of one file, each as if of a server of its own."""
    opened = []

    def ledger() -> Ledger:
        database = open_database(f"sqlite:///{tmp_path / 'w.db'}")
        opened.append(database)
        return Ledger(database, Store(database), clock)

    yield ledger
    for database in opened:
        database.close()


def tell(ledger: Ledger, body: dict[str, Any], app: str = "app") -> ReportAnswer:
    (answer,) = ledger.report([(app, Report.model_validate(body))])
    if isinstance(answer, Exception):
        raise answer
    return answer


def low(answer: ReportAnswer, operator: str = "source") -> int | None:
    return answer.operators[operator].output_low_watermark


def shown(ledger: Ledger, app: App) -> AppState:
    return app_state(app, ledger.now(), ledger.limits)


def decide(ledger: Ledger, **fields: object) -> int:
    confirm = fields.get("action") in {"advance", "purge"}
    given_fields = {
        "operator": "source",
        "name": "dana",
        "reason": "disk died",
        "confirm": confirm,
        **fields,
    }
    return ledger.override("app", OverrideRequest.model_validate(given_fields))


def test_a_rostered_host_that_was_never_seen_holds_the_watermark(make: Callable[[], Ledger]) -> None:
    ledger = make()
    answer = tell(ledger, report(source({"h1": T + 5}, roster=["h1", "h2"])))
    assert (low(answer), answer.need_roster) == (None, False)
    assert low(tell(ledger, report(source({"h2": T + 3})))) == T + 3
    half = source({"h1": T + 9}, completeness="0.5")
    assert low(tell(ledger, report(half))) == T + 9


def test_without_a_roster_the_hosts_seen_count(make: Callable[[], Ledger]) -> None:
    ledger = make()
    answer = tell(ledger, report(source({"h1": T + 5})))
    assert (low(answer), answer.need_roster) == (T + 5, True)
    answer = tell(ledger, report(source({"h1": T + 9, "h2": T + 7}, roster=[])))
    assert (low(answer), answer.need_roster) == (T + 7, False)


def test_progress_and_watermarks_never_go_back(make: Callable[[], Ledger]) -> None:
    ledger = make()
    tell(ledger, report(source({"h1": T + 5}, roster=["h1"]), sink({"0": T + 4})))
    answer = tell(ledger, report(source({"h1": T + 1}), sink({"0": T + 2})))
    assert (low(answer), low(answer, "sink"), answer.global_low_watermark) == (T + 5, T + 4, T + 4)
    answer = tell(ledger, report(source({}, roster=["h1", "new"], completeness="1")))
    assert (low(answer), answer.global_low_watermark) == (T + 5, T + 4)
    assert low(tell(make(), report(source({})))) == T + 5


def test_a_roster_that_changes_replaces_the_old_one(make: Callable[[], Ledger]) -> None:
    ledger = make()
    tell(ledger, report(source({"h1": T + 5, "h2": T + 9}, roster=["h1", "h2"])))
    assert low(tell(ledger, report(source({}, roster=["h2"])))) == T + 9
    other = make()
    assert low(tell(other, report(source({"h2": T + 11})))) == T + 11
    assert low(tell(ledger, report(source({"h2": T + 12})))) == T + 12


def test_a_roster_that_the_server_lacks_holds_the_watermark(make: Callable[[], Ledger]) -> None:
    ledger = make()
    answer = tell(ledger, report(source({"fast": T + 9}, roster_version=3)))
    assert (low(answer), answer.need_roster) == (None, True)
    answer = tell(ledger, report(source({"slow": T + 1}, roster=["fast", "slow"], roster_version=3)))
    assert (low(answer), answer.need_roster) == (T + 1, False)
    # Versions are compared, not ordered: a driver whose clock is behind has a roster as good as any.
    answer = tell(ledger, report(source({}, roster_version=2)))
    assert (low(answer), answer.need_roster) == (T + 1, True)
    answer = tell(ledger, report(source({"fast": T + 12}, roster=["fast"], roster_version=2)))
    assert (low(answer), answer.need_roster) == (T + 12, False)
    answer = tell(ledger, report(source({"fast": T + 20}, roster_version="5f1d3c")))
    assert (low(answer), answer.need_roster) == (T + 12, True)


def test_a_source_of_stamps_has_no_hosts(make: Callable[[], Ledger]) -> None:
    ledger = make()
    answer = tell(ledger, report(source({}, input_low_watermark=T + 4)))
    assert answer.operators["source"].model_dump() == {
        "input_low_watermark": T + 4,
        "output_low_watermark": T + 4,
    }
    assert low(tell(ledger, report(source({}, input_low_watermark=T + 2)))) == T + 4


def test_the_global_watermark_waits_for_sinks_of_other_queries(make: Callable[[], Ledger]) -> None:
    ledger = make()
    first = report(source({"h": T + 5}, roster=["h"]), sink({}, name="topic"))
    assert tell(ledger, first).global_low_watermark == T + 5
    second = report(sink({"0": T + 3}, name="files", upstreams=["topic"]))
    # It was told that much before; from here on the slower sink holds it.
    assert tell(ledger, second).global_low_watermark == T + 5
    third = report(source({"h": T + 50}), sink({"0": T + 30}, name="files", upstreams=["topic"]))
    assert tell(ledger, third).global_low_watermark == T + 30


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (report(sink({}, name="a", upstreams=["sink"]), sink({}, upstreams=["a"])), "in a circle: "),
        (report(sink({}, name="source", upstreams=["x"])), "known as a source"),
        (report(source({}, name="sink")), "known as a sink"),
        (report(windows=[{"operator": "x", "start": 0, "end": 1, "expected": 1, "passed": 1}]), "unknown"),
    ],
)
def test_a_contradiction_is_refused_and_changes_nothing(
    make: Callable[[], Ledger], body: dict[str, Any], reason: str
) -> None:
    ledger = make()
    tell(ledger, report(source({"h": T + 5}, roster=["h"]), sink({"0": T})))
    before = _everything(make())
    with pytest.raises(RefusedError, match=reason):
        tell(ledger, body)
    with pytest.raises(RefusedError):
        tell(ledger, report(sink({}, name="a", upstreams=["a"])), app="of its own")
    assert _everything(make()) == before
    assert _everything(ledger) == before
    assert ledger.names() == ["app"]


def test_refused_and_taken_reports_share_a_transaction(make: Callable[[], Ledger]) -> None:
    ledger = make()
    bodies = [
        report(source({"h": T + 1}, roster=["h"])),
        report(sink({}, name="a", upstreams=["a"])),
        report(source({"h": T + 2})),
    ]
    first, second, third = ledger.report([("app", Report.model_validate(body)) for body in bodies])
    assert isinstance(second, RefusedError)
    assert isinstance(first, ReportAnswer)
    assert isinstance(third, ReportAnswer)
    assert (low(first), low(third)) == (T + 2, T + 2)


def test_silent_hosts_dont_count_until_they_rise_again(make: Callable[[], Ledger], clock: Clock) -> None:
    roster = ["h1", "h2", "h3"]

    def waiting(**progress: int) -> dict[str, Any]:
        return report(source(progress, roster=roster, idle_after=60 * SECOND))

    ledger = make()
    first = tell(ledger, waiting(h1=T + 1, h2=T + 2))
    assert (low(first), first.idle_hosts) == (None, {})
    clock.now += 30 * SECOND
    tell(ledger, waiting(h1=T + 3))
    clock.now += 29 * SECOND
    # Another server starts now, and has seen no silence yet; a report that raises nothing is none.
    other = make()
    assert low(tell(other, waiting(h1=T + 5, h2=T + 2))) is None
    assert low(tell(other, waiting())) is None
    clock.now += 30 * SECOND
    idle = tell(other, waiting(h1=T + 6))
    assert (low(idle), idle.idle_hosts) == (T + 6, {"source": ["h2", "h3"]})
    app = other.app("app")
    assert app is not None
    hosts = host_page(app, None, 9, 0, clock.now).hosts
    assert [(h.host, h.state) for h in hosts] == [("h3", "idle"), ("h2", "idle"), ("h1", "holds")]
    state = shown(other, app).topology[0]
    assert (state.hosts, state.hosts_idle) == (1, 2)
    # It is told as a maximum: the other server's answer isn't below it, and it knows of the silence too.
    assert low(tell(ledger, waiting())) == T + 6
    back = tell(ledger, waiting(h1=T + 9, h2=T + 7))
    assert (low(back), back.idle_hosts) == (T + 7, {"source": ["h3"]})
    # Who doesn't ask for it any more waits for all.
    forever = tell(ledger, report(source({"h1": T + 20, "h2": T + 20}, roster=roster)))
    assert (low(forever), forever.idle_hosts) == (T + 7, {})


def test_excluded_hosts_dont_count_until_they_are_included(make: Callable[[], Ledger], clock: Clock) -> None:
    ledger = make()
    tell(ledger, report(source({"h1": T + 5}, roster=["h1", "h9"])))
    decide(ledger, action="exclude", host="h9")
    answer = tell(make(), report(source({})))
    assert (low(answer), answer.excluded_hosts) == (T + 5, {"source": ["h9"]})
    clock.now += SECOND
    decide(ledger, action="include", host="h9")
    answer = tell(make(), report(source({"h1": T + 50})))
    assert (low(answer), answer.excluded_hosts) == (T + 5, {})
    app = ledger.app("app")
    assert app is not None
    assert ledger.records.audit(app, 10, 0) == [
        (T + SECOND, "include", "source", None, "h9", "dana", "disk died"),
        (T, "exclude", "source", None, "h9", "dana", "disk died"),
    ]


def test_an_operator_cant_be_advanced_past_all_known_times(make: Callable[[], Ledger], clock: Clock) -> None:
    ledger = make()
    tell(ledger, report(source({"h1": T - 5}, roster=["h1", "h9"]), sink({"0": T})))
    decide(ledger, action="advance", to=T - 7)
    answer = tell(make(), report(source({})))
    assert (low(answer), answer.global_low_watermark) == (T - 7, T - 7)
    with pytest.raises(RefusedError, match="after now"):
        decide(ledger, action="advance", to=T + 1)
    clock.now = T - SECOND
    decide(ledger, action="advance", to=T - 5)
    with pytest.raises(RefusedError, match="after now"):
        decide(ledger, action="advance", to=T - 4)
    for wrong in ({"operator": "x", "to": T - 8, "action": "advance"}, {"host": "x", "action": "exclude"}):
        with pytest.raises(RefusedError):
            decide(ledger, **wrong)
    with pytest.raises(RefusedError, match="no source"):
        decide(ledger, action="exclude", operator="sink", host="h1")
    # A refusal leaves memory and database agreed, whoever writes next.
    assert low(tell(make(), report(source({"h9": T + 3})))) == T - 5
    assert low(tell(ledger, report(source({"h1": T + 3})))) == T + 3


def test_a_removed_operator_holds_nothing_until_it_is_back(make: Callable[[], Ledger]) -> None:
    ledger, other = make(), make()
    old = sink({"0": T - 9}, name="old")
    tell(ledger, report(source({"h": T}), sink({"0": T - 1}), old))
    assert tell(other, report(source({}))).global_low_watermark == T - 9
    decide(ledger, action="remove", operator="old")
    answer = tell(other, report(source({"h": T + 5})))
    assert answer.global_low_watermark == T - 1
    app = other.app("app")
    assert app is not None
    assert [o.operator for o in shown(other, app).topology] == ["source", "sink"]
    for action in ({"action": "remove"}, {"action": "advance", "to": T - 5}):
        with pytest.raises(RefusedError, match="no operator"):
            decide(other, operator="old", **action)
    # Back it is where it was, and what was told meanwhile stays told.
    answer = tell(ledger, report(sink({"0": T - 8}, name="old")))
    assert (low(answer, "old"), answer.global_low_watermark) == (T - 8, T - 1)
    assert tell(ledger, report(sink({"0": T + 2}))).global_low_watermark == T - 1
    assert make().names() == ["app"]


def test_readers_of_a_removed_operator_read_from_its_upstreams(make: Callable[[], Ledger]) -> None:
    ledger = make()
    middle = {"operator": "middle", "kind": "operator", "upstreams": ["source", "gone"]}
    tell(ledger, report(source({"h": T}), source({"g": T - 50}, name="gone"), middle))
    tell(ledger, report(sink({}, upstreams=["middle"])))
    decide(ledger, action="remove", operator="middle")
    answer = tell(ledger, report(source({"g": T - 40}, name="gone")))
    assert answer.global_low_watermark == T - 40
    decide(ledger, action="remove", operator="gone")
    answer = tell(ledger, report(sink({}, upstreams=["middle"])))
    assert (answer.operators["sink"].input_low_watermark, low(answer, "sink")) == (T, T)
    app = make().app("app")
    assert app is not None
    assert [(o.operator, o.upstreams) for o in shown(ledger, app).topology] == [
        ("source", []),
        ("sink", ["source"]),
    ]


def test_a_removed_application_is_listed_when_it_reports_again(make: Callable[[], Ledger]) -> None:
    ledger = make()
    tell(ledger, report(source({"h": T}), sink({"0": T})))
    decide(ledger, action="remove", operator=None)
    app = make().app("app")
    assert app is not None
    assert (ledger.names(), shown(ledger, app).operators, app.told) == ([], 0, T)
    with pytest.raises(RefusedError, match="no operators"):
        decide(ledger, action="remove", operator=None)
    assert tell(make(), report(source({"h": T - 1}))).global_low_watermark == T
    assert ledger.names() == ["app"]


def test_the_greatest_report_of_a_window_stands_in_any_order(make: Callable[[], Ledger]) -> None:
    ledger = make()
    tell(ledger, report(source({"h": T})))
    base = {"operator": "source", "start": T, "end": T + 60, "expected": 3, "passed": 2}
    missing = [{"host": "h9", "progress": None}]
    for late in (4, 12, 7):
        tell(ledger, report(windows=[{**base, "late_rows": late, "missing": missing}]))
    app = ledger.app("app")
    assert app is not None
    (window,) = window_page(ledger.records.windows(app, None, 10, 0)).windows
    assert (window.late_rows, window.passed, window.missing[0].host) == (12, 2, "h9")


def test_history_is_sampled_and_old_points_are_deleted(make: Callable[[], Ledger], clock: Clock) -> None:
    ledger = make()
    for second in (0, 1, 2, 12):
        clock.now = T + second * SECOND
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
    clock.now = T + 2 * HISTORY_KEPT
    tell(ledger, report(source({"h": T + 99})))
    assert [row[2] for row in ledger.records.history(app, 0)[0]] == [T + 99, T + 99]


def test_only_the_latest_windows_are_kept(
    make: Callable[[], Ledger], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tailrace.server.ledger.WINDOWS_KEPT", 3)
    ledger = make()
    windows = [
        {"operator": "source", "start": T + n, "end": T + n + 1, "expected": 1, "passed": 1} for n in range(9)
    ]
    tell(ledger, report(source({"h": T}), windows=windows))
    clock.now += HISTORY_KEPT
    tell(ledger, report(source({"h": T})))
    app = ledger.app("app")
    assert app is not None
    assert [row[1] for row in ledger.records.windows(app, None, 10, 0)] == [T + 8, T + 7, T + 6]


def test_the_latest_decisions_are_kept(
    make: Callable[[], Ledger], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tailrace.server.ledger.AUDIT_KEPT", 3)
    ledger = make()
    for name in ("app", "other"):
        tell(ledger, report(source({"h": T}, roster=["h"])), name)
    app = ledger.app("app")
    assert app is not None
    for step in range(5):
        decide(ledger, action="include" if step % 2 else "exclude", host="h", reason=f"step {step}")
    assert len(ledger.records.audit(app, 99, 0)) == 5
    clock.now += HISTORY_KEPT
    tell(ledger, report(source({"h": T})), "other")
    assert len(ledger.records.audit(app, 99, 0)) == 5
    tell(ledger, report(source({"h": T})))
    assert [row[6] for row in ledger.records.audit(app, 99, 0)] == ["step 4", "step 3", "step 2"]


def test_windows_are_pruned_when_there_are_many(
    make: Callable[[], Ledger], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tailrace.server.ledger.WINDOWS_KEPT", 3)
    monkeypatch.setattr("tailrace.server.ledger._WINDOWS_BETWEEN", 10)
    ledger = make()
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
    make: Callable[[], Ledger], monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = make()
    tell(ledger, report(source({"h": T}, roster=["h"])))
    put_app = Store.put_app

    def fail(*_: object) -> None:
        raise DatabaseError("the disk is full.")

    monkeypatch.setattr(Store, "put_app", fail)
    with pytest.raises(DatabaseError, match="disk is full"):
        tell(ledger, report(source({"h": T + 9})))
    monkeypatch.setattr(Store, "put_app", put_app)
    assert low(tell(ledger, report(source({"h": T + 2})))) == T + 2


def test_the_database_itself_only_raises_maxima(make: Callable[[], Ledger]) -> None:
    ledger = make()
    tell(ledger, report(source({"h": T + 5}), sink({"0": T + 3})))
    app = ledger.app("app")
    assert app is not None
    ledger.store.put_progress(app, app.operators["source"].reporters["query"], {"h": T + 1})
    ledger.store.put_groups(app, app.operators["sink"].reporters["query"], {"0": T + 1})
    found = make().app("app")
    assert found is not None
    assert found.operators["source"].hosts().newest() == T + 5
    assert found.operators["sink"].reporters["query"].groups == {"0": T + 3}


def test_tidying_up_copies_the_log_into_the_file(make: Callable[[], Ledger], tmp_path: Path) -> None:
    ledger = make()
    tell(ledger, report(source({f"h{n}": T for n in range(5_000)})))
    before = (tmp_path / "w.db").stat().st_size
    ledger.tidy()
    assert (tmp_path / "w.db").stat().st_size > before + 100_000


def test_the_holding_hosts_are_told_from_those_that_completeness_allows(make: Callable[[], Ledger]) -> None:
    ledger = make()
    progress = {"h1": T + 9, "h2": T + 5, "h3": T + 1}
    tell(ledger, report(source(progress, roster=["h1", "h2", "h3", "h4"], completeness="0.5")))
    decide(ledger, action="exclude", host="h4")
    app = ledger.app("app")
    assert app is not None
    page = host_page(app, None, 10, 0, T)
    assert [(h.host, h.state, h.lag) for h in page.hosts] == [
        ("h4", "excluded", None),
        ("h3", "behind", -1),
        ("h2", "holds", -5),
        ("h1", "passed", -9),
    ]
    assert [h.host for h in host_page(app, "source", 2, 1, T).hosts] == ["h3", "h2"]
    state = shown(ledger, app)
    (operator,) = state.topology
    assert (operator.hosts, operator.hosts_behind, operator.hosts_allowed) == (3, 1, 1)
    assert (state.held_by, state.lag) == (["source"], -5)


_TIMES = r'"(at|lag|reported_at|heard_at)":(-?\d+|null)'


def _everything(ledger: Ledger) -> dict[str, Any]:
    """All that readers see of an application but when it was reported."""
    app = ledger.app("app")
    if app is None:
        return {}
    found = json.loads(re.sub(_TIMES, r'"\1": 0', shown(ledger, app).model_dump_json()))
    groups = {
        name: {client: dict(reporter.groups) for client, reporter in operator.reporters.items()}
        for name, operator in app.operators.items()
    }
    hosts = host_page(app, None, 1_000, 0, 0).model_dump()
    return {
        **found,
        "groups": groups,
        "page": hosts,
        "windows": list(ledger.records.windows(app, None, 999, 0)),
    }


_times = st.integers(T, T + 20)
_progress = st.dictionaries(st.sampled_from(["h1", "h2", "h3", "h4"]), _times, max_size=4)
_groups = st.dictionaries(st.sampled_from(["0", "1"]), _times, max_size=2)
_ROSTER = ["h1", "h2", "h3", "h4"]


@st.composite
def _reports(draw: st.DrawFn) -> dict[str, Any]:
    late = draw(st.integers(0, 5))
    window = {"operator": "source", "start": T, "end": T + 9, "expected": 4, "passed": 3, "late_rows": late}
    return report(
        source(draw(_progress), completeness="0.75"),
        sink(draw(_groups)),
        windows=[window] if draw(st.booleans()) else [],
    )


@settings(max_examples=40, deadline=None)
@given(st.lists(_reports(), min_size=1, max_size=7), st.data())
def test_reports_commute_and_repeat_over_two_servers(
    bodies: list[dict[str, Any]], data: st.DataObject
) -> None:
    # The same reports once in their order, and once shuffled, repeated, and dealt to two servers of one file.
    again = data.draw(st.permutations(bodies + data.draw(st.lists(st.sampled_from(bodies), max_size=5))))
    # What counts is said first, roster and key groups: a group of later couldn't hold what was told.
    first = report(source({}, roster=_ROSTER, completeness="0.75"), sink({"0": T, "1": T}))
    with tempfile.TemporaryDirectory() as name:
        files = [f"sqlite:///{Path(name) / file}.db" for file in ("a", "b")]
        databases = [open_database(files[0]), open_database(files[1]), open_database(files[1])]
        plain, *two = [Ledger(database, Store(database), lambda: T) for database in databases]
        for ledger in (plain, two[0]):
            tell(ledger, first)
        for body in bodies:
            tell(plain, body)
        known: dict[str, int] = {}
        for body in again:
            answer = tell(two[data.draw(st.integers(0, 1))], body)
            outputs = {"": answer.global_low_watermark, "source": low(answer), "sink": low(answer, "sink")}
            for operator, output in outputs.items():
                assert operator not in known or (output is not None and output >= known[operator])
                if output is not None:
                    known[operator] = output
        expected = _everything(plain)
        assert _everything(two[0]) == expected
        assert _everything(two[1]) == expected
        for database in databases:
            database.close()
