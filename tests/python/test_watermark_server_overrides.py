"""Decisions of people: hosts that are excluded, operators that are advanced or removed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ledger_reports import decide, low, shown, tell
from tailrace.server.hostpages import Asked, host_page
from tailrace.server.reporter import RefusedError
from watermark_servers import SECOND, T, report, sink, source

if TYPE_CHECKING:
    from watermark_ledgers import Ledgers


def test_silent_hosts_dont_count_until_they_rise_again(ledgers: Ledgers) -> None:
    roster = ["h1", "h2", "h3"]

    def waiting(**progress: int) -> dict[str, Any]:
        return report(source(progress, roster=roster, idle_after=60 * SECOND))

    ledger = ledgers.make()
    first = tell(ledger, waiting(h1=T + 1, h2=T + 2))
    assert (low(first), first.idle_hosts) == (None, {})
    ledgers.clock.wait(30 * SECOND)
    tell(ledger, waiting(h1=T + 3))
    ledgers.clock.wait(29 * SECOND)
    # Another server starts now, and has seen no silence yet; a report that raises nothing is none.
    other = ledgers.make()
    assert low(tell(other, waiting(h1=T + 5, h2=T + 2))) is None
    assert low(tell(other, waiting())) is None
    ledgers.clock.wait(30 * SECOND)
    idle = tell(other, waiting(h1=T + 6))
    assert (low(idle), idle.idle_hosts) == (T + 6, {"source": ["h2", "h3"]})
    app = other.app("app")
    assert app is not None
    hosts = host_page(app, Asked(), ledgers.clock.now, other.limits).hosts
    assert [(h.host, h.state) for h in hosts] == [("h3", "idle"), ("h2", "idle"), ("h1", "passed")]
    state = shown(other, app).topology[0]
    assert (state.hosts, state.hosts_idle) == (1, 2)
    # It is told as a maximum: the other server's answer isn't below it, and it knows of the silence too.
    assert low(tell(ledger, waiting())) == T + 6
    back = tell(ledger, waiting(h1=T + 9, h2=T + 7))
    assert (low(back), back.idle_hosts) == (T + 7, {"source": ["h3"]})
    # Without idle_after the source waits for all hosts again.
    forever = tell(ledger, report(source({"h1": T + 20, "h2": T + 20}, roster=roster)))
    assert (low(forever), forever.idle_hosts) == (T + 7, {})


def test_excluded_hosts_dont_count_until_they_are_included(ledgers: Ledgers) -> None:
    ledger = ledgers.make()
    tell(ledger, report(source({"h1": T + 5}, roster=["h1", "h9"])))
    decide(ledger, action="exclude", host="h9")
    answer = tell(ledgers.make(), report(source({})))
    assert (low(answer), answer.excluded_hosts) == (T + 5, {"source": ["h9"]})
    ledgers.clock.wait(SECOND)
    decide(ledger, action="include", host="h9")
    answer = tell(ledgers.make(), report(source({"h1": T + 50})))
    assert (low(answer), answer.excluded_hosts) == (T + 5, {})
    app = ledger.app("app")
    assert app is not None
    assert ledger.records.audit(app, 10, 0) == [
        (T + SECOND, "include", "source", None, "h9", "dana", "disk died"),
        (T, "exclude", "source", None, "h9", "dana", "disk died"),
    ]


def test_an_operator_cant_be_advanced_past_all_known_times(ledgers: Ledgers) -> None:
    ledger = ledgers.make()
    tell(ledger, report(source({"h1": T - 5}, roster=["h1", "h9"]), sink({"0": T})))
    decide(ledger, action="advance", to=T - 7)
    answer = tell(ledgers.make(), report(source({})))
    assert (low(answer), answer.global_low_watermark) == (T - 7, T - 7)
    with pytest.raises(RefusedError, match="after now"):
        decide(ledger, action="advance", to=T + 1)
    ledgers.clock.now = T - SECOND
    decide(ledger, action="advance", to=T - 5)
    with pytest.raises(RefusedError, match="after now"):
        decide(ledger, action="advance", to=T - 4)
    for wrong in ({"operator": "x", "to": T - 8, "action": "advance"}, {"host": "x", "action": "exclude"}):
        with pytest.raises(RefusedError):
            decide(ledger, **wrong)
    with pytest.raises(RefusedError, match="no source"):
        decide(ledger, action="exclude", operator="sink", host="h1")
    # A refusal leaves memory and database agreed, whoever writes next.
    assert low(tell(ledgers.make(), report(source({"h9": T + 3})))) == T - 5
    assert low(tell(ledger, report(source({"h1": T + 3})))) == T + 3


def test_a_removed_operator_holds_nothing_until_it_is_back(ledgers: Ledgers) -> None:
    ledger, other = ledgers.make(), ledgers.make()
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
    assert ledgers.make().names() == ["app"]


def test_readers_of_a_removed_operator_read_from_its_upstreams(ledgers: Ledgers) -> None:
    ledger = ledgers.make()
    middle = {"operator": "middle", "kind": "operator", "upstreams": ["source", "gone"]}
    tell(ledger, report(source({"h": T}), source({"g": T - 50}, name="gone"), middle))
    tell(ledger, report(sink({}, upstreams=["middle"])))
    decide(ledger, action="remove", operator="middle")
    answer = tell(ledger, report(source({"g": T - 40}, name="gone")))
    assert answer.global_low_watermark == T - 40
    decide(ledger, action="remove", operator="gone")
    answer = tell(ledger, report(sink({}, upstreams=["middle"])))
    assert (answer.operators["sink"].input_low_watermark, low(answer, "sink")) == (T, T)
    app = ledgers.make().app("app")
    assert app is not None
    assert [(o.operator, o.upstreams) for o in shown(ledger, app).topology] == [
        ("source", []),
        ("sink", ["source"]),
    ]


def test_a_removed_application_is_listed_when_it_reports_again(ledgers: Ledgers) -> None:
    ledger = ledgers.make()
    tell(ledger, report(source({"h": T}), sink({"0": T})))
    decide(ledger, action="remove", operator=None)
    app = ledgers.make().app("app")
    assert app is not None
    assert (ledger.names(), shown(ledger, app).operators, app.told) == ([], 0, T)
    with pytest.raises(RefusedError, match="no operators"):
        decide(ledger, action="remove", operator=None)
    assert tell(ledgers.make(), report(source({"h": T - 1}))).global_low_watermark == T
    assert ledger.names() == ["app"]
