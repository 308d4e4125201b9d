"""The state of a ledger after reports, in any order of them."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger_reports import decide, low, shown, tell
from tailrace.server.answers import ReportAnswer
from tailrace.server.hostpages import Asked, host_page
from tailrace.server.ledger import Ledger
from tailrace.server.opening import open_database
from tailrace.server.protocol import Report
from tailrace.server.reporter import RefusedError
from tailrace.server.store import Store
from watermark_servers import T, report, sink, source

if TYPE_CHECKING:
    from watermark_ledgers import Ledgers


def test_a_rostered_host_that_was_never_seen_holds_the_watermark(ledgers: Ledgers) -> None:
    ledger = ledgers.make()
    answer = tell(ledger, report(source({"h1": T + 5}, roster=["h1", "h2"])))
    assert (low(answer), answer.need_roster) == (None, False)
    assert low(tell(ledger, report(source({"h2": T + 3})))) == T + 3
    half = source({"h1": T + 9}, completeness="0.5")
    assert low(tell(ledger, report(half))) == T + 9


def test_without_a_roster_the_hosts_seen_count(ledgers: Ledgers) -> None:
    ledger = ledgers.make()
    answer = tell(ledger, report(source({"h1": T + 5})))
    assert (low(answer), answer.need_roster) == (T + 5, True)
    answer = tell(ledger, report(source({"h1": T + 9, "h2": T + 7}, roster=[])))
    assert (low(answer), answer.need_roster) == (T + 7, False)


def test_progress_and_watermarks_never_go_back(ledgers: Ledgers) -> None:
    ledger = ledgers.make()
    tell(ledger, report(source({"h1": T + 5}, roster=["h1"]), sink({"0": T + 4})))
    answer = tell(ledger, report(source({"h1": T + 1}), sink({"0": T + 2})))
    assert (low(answer), low(answer, "sink"), answer.global_low_watermark) == (T + 5, T + 4, T + 4)
    answer = tell(ledger, report(source({}, roster=["h1", "new"], completeness="1")))
    assert (low(answer), answer.global_low_watermark) == (T + 5, T + 4)
    assert low(tell(ledgers.make(), report(source({})))) == T + 5


def test_a_roster_that_changes_replaces_the_old_one(ledgers: Ledgers) -> None:
    ledger = ledgers.make()
    tell(ledger, report(source({"h1": T + 5, "h2": T + 9}, roster=["h1", "h2"])))
    assert low(tell(ledger, report(source({}, roster=["h2"])))) == T + 9
    other = ledgers.make()
    assert low(tell(other, report(source({"h2": T + 11})))) == T + 11
    assert low(tell(ledger, report(source({"h2": T + 12})))) == T + 12


def test_a_roster_that_the_server_lacks_holds_the_watermark(ledgers: Ledgers) -> None:
    ledger = ledgers.make()
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


def test_a_source_of_stamps_has_no_hosts(ledgers: Ledgers) -> None:
    ledger = ledgers.make()
    answer = tell(ledger, report(source({}, input_low_watermark=T + 4)))
    assert answer.operators["source"].model_dump() == {
        "input_low_watermark": T + 4,
        "output_low_watermark": T + 4,
        "batches": None,
    }
    assert low(tell(ledger, report(source({}, input_low_watermark=T + 2)))) == T + 4


def test_the_global_watermark_waits_for_sinks_of_other_queries(ledgers: Ledgers) -> None:
    ledger = ledgers.make()
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
    ledgers: Ledgers, body: dict[str, Any], reason: str
) -> None:
    ledger = ledgers.make()
    tell(ledger, report(source({"h": T + 5}, roster=["h"]), sink({"0": T})))
    before = _everything(ledgers.make())
    with pytest.raises(RefusedError, match=reason):
        tell(ledger, body)
    with pytest.raises(RefusedError):
        tell(ledger, report(sink({}, name="a", upstreams=["a"])), app="of its own")
    assert _everything(ledgers.make()) == before
    assert _everything(ledger) == before
    assert ledger.names() == ["app"]


def test_refused_and_taken_reports_share_a_transaction(ledgers: Ledgers) -> None:
    ledger = ledgers.make()
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


def test_the_holding_hosts_are_told_from_those_that_completeness_allows(ledgers: Ledgers) -> None:
    ledger = ledgers.make()
    progress = {"h1": T + 9, "h2": T + 5, "h3": T + 1}
    tell(ledger, report(source(progress, roster=["h1", "h2", "h3", "h4"], completeness="0.5")))
    decide(ledger, action="exclude", host="h4")
    app = ledger.app("app")
    assert app is not None
    page = host_page(app, Asked(), T, ledger.limits)
    assert [(h.host, h.state, h.lag) for h in page.hosts] == [
        ("h4", "excluded", None),
        ("h3", "behind", -1),
        ("h2", "holds", -5),
        ("h1", "passed", -9),
    ]
    assert [h.host for h in host_page(app, Asked("source", limit=2, offset=1), T, ledger.limits).hosts] == [
        "h3",
        "h2",
    ]
    state = shown(ledger, app)
    (operator,) = state.topology
    assert (operator.hosts, operator.hosts_behind, operator.hosts_allowed) == (3, 1, 1)
    assert (state.held_by, state.lag) == (["source"], -5)


_TIMES = r'"(at|lag|backlog|reported_at|heard_at)":(-?\d+|null)'


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
    hosts = host_page(app, Asked(limit=1_000), 0, ledger.limits).model_dump()
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
    # Roster and key groups come first: a later group couldn't hold a value that was told.
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
