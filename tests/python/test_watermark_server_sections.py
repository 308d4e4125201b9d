"""What the page's sections say of operators, of those who report them, and of decisions that stand."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from api_requests import WINDOW
from tailrace.server.choice import Choice, tabs_of
from tailrace.server.page import rendered
from tailrace.server.protocol import OverrideRequest, Report
from tailrace.server.sections import shown, shown_hosts
from watermark_ledgers import MINUTE, Ledgers, decide, tell, unisolated
from watermark_servers import SECOND, T, sink, source

if TYPE_CHECKING:
    from tailrace.server.ledger import Ledger


def rows(ledger: Ledger, section: str) -> list[list[str]]:
    """The texts of a table's cells, without those of its head."""
    html = rendered("sections.html", shown(ledger, "app"))[section]
    found = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in html.split("<tr")[2:]]
    return [[" ".join(re.sub(r"<[^>]*>", "", cell).split()) for cell in cells] for cells in found]


def test_each_operator_names_who_reports_it_and_whether_they_live(ledgers: Ledgers) -> None:
    ledger = ledgers.make()
    tell(ledger, "lost", source({"a": T}), run="first")
    tell(ledger, "ends", source({"b": T + 1}), run="second", leaving=True)
    ledgers.clock.wait(2 * MINUTE)
    tell(ledger, "lives", source({"c": T + 2, "d": T + 2}), sink({"0": T}), run="third")
    known = "2025-11-21 04:40:00"
    assert sorted(rows(ledger, "reporters")) == [
        ["sink", "lives", "", "", "third", "waited for live", "0.0 s ago", known, ""],
        ["source", "ends", "", "", "second", "ended", "2 min 0 s ago", known, "1"],
        ["source", "lives", "", "", "third", "live", "0.0 s ago", known, "2"],
        ["source", "lost", "", "", "first", "waited for gone", "2 min 0 s ago", known, "1"],
    ]


def test_sources_show_their_backlog_and_skew(ledgers: Ledgers) -> None:
    ledger = ledgers.make()
    tell(ledger, "q", source({"a": T - 90 * SECOND, "b": T - 5 * SECOND}), sink({}))
    first, second = rows(ledger, "operators")
    assert (first[0], first[4:6]) == ("source source", ["1 min 30 s", "1 min 25 s"])
    assert (second[0], second[4:6]) == ("sink sink", ["", ""])
    tell(ledger, "q", source({}, roster=["a", "b", "unseen"]))
    assert rows(ledger, "operators")[0][4:6] == ["never", "–"]  # noqa: RUF001  a dash, as it is meant


def test_what_can_be_taken_back_is_offered(ledgers: Ledgers) -> None:
    ledger = ledgers.make()
    tell(ledger, "q", source({"a": T - 90 * SECOND, "b": T}), sink({"0": T}))
    assert not rendered("sections.html", shown(ledger, "app"))["offers"].strip()
    decide(ledger, "advance", to=T - SECOND, confirm=True)
    decide(ledger, "remove", operator="sink")
    offers = rendered("sections.html", shown(ledger, "app"))["offers"]
    assert re.findall(r'data-action="(\w+)" data-operator="(\w+)"', offers) == [
        ("undo", "source"),
        ("purge", "sink"),
    ]
    decide(ledger, "undo")
    decide(ledger, "purge", operator="sink", confirm=True)
    assert not rendered("sections.html", shown(ledger, "app"))["offers"].strip()


def test_the_summary_names_some_of_the_hosts_that_hold(ledgers: Ledgers) -> None:
    ledger = ledgers.make()
    tell(ledger, "q", source({**{f"h{n}": T for n in range(5)}, "ahead": T + 1}))
    summary = unisolated(rendered("sections.html", shown(ledger, "app"))["summary"])
    assert "which waits for h0, h1, h2 and 2 others." in summary
    tell(ledger, "q", source({f"h{n}": T + 1 for n in range(5)}))
    assert "which waits for" not in rendered("sections.html", shown(ledger, "app"))["summary"]


TURNED = "web\u202e1"


def test_names_with_marks_of_direction_dont_reorder_the_text_around_them(ledgers: Ledgers) -> None:
    ledger = ledgers.make()
    for client, hosts in (("c\u202ea", {TURNED: T, "x": T + 5}), ("cb", {TURNED: T + 9, "x": T + 9})):
        operators = [
            source(hosts, name=TURNED, label=TURNED, reads=[f"file:/{TURNED}/{client}"], logs=TURNED),
            {**sink({"0": T}, upstreams=[TURNED]), "label": f"sink {TURNED}"},
        ]
        body = {"client": client, "run": TURNED, "query": f"q {TURNED}", "operators": operators}
        body["windows"] = [{**WINDOW, "missing": [{"host": TURNED, "progress": None}]}]
        (answer,) = ledger.report([(TURNED, Report.model_validate(body))])
        assert not isinstance(answer, Exception)
    fields = {"action": "exclude", "operator": TURNED, "host": TURNED, "name": TURNED, "reason": TURNED}
    ledger.override(TURNED, OverrideRequest.model_validate(fields))
    choice = Choice(TURNED, search="\u202e")
    html = {
        **rendered("sections.html", shown(ledger, TURNED)),
        **rendered("chosen.html", shown_hosts(ledger, choice)),
        **rendered("tabs.html", {"choice": choice, "tabs": tabs_of([TURNED], choice)}),
    }
    shown_names = {name for name, text in html.items() if "\u202e" in text}
    assert shown_names >= {
        "summary",
        "topology",
        "operators",
        "reporters",
        "windows",
        "overrides",
        "hosts",
        "apps",
    }
    for name, text in html.items():
        outside = re.sub(r"<[^>]*>", "", re.sub(r"<bdi>[^<]*</bdi>", "", text))
        assert "\u202e" not in outside, name
    assert "\\u202e" in html["summary"], "within a phrase the mark is written out"


def test_a_window_shows_how_many_hosts_had_passed_and_not_the_setting(ledgers: Ledgers) -> None:
    ledger = ledgers.make()
    windows = [
        {**WINDOW, "start": T, "end": T + 5, "expected": 100_000, "passed": 99_999, "missing": []},
        {**WINDOW, "start": T + 5, "end": T + 10, "expected": 3, "passed": 3, "missing": []},
    ]
    report = {
        "client": "q",
        "run": "1",
        "operators": [source({"a": T + 10}, completeness="0.999"), sink({"0": T + 10})],
    }
    (answer,) = ledger.report([("app", Report.model_validate({**report, "windows": windows}))])
    assert not isinstance(answer, Exception)
    shares = {row[2] for row in rows(ledger, "windows")}
    assert shares == {"99.99 %", "100.00 %"}, "100 % only if all had passed"
    head = rendered("sections.html", shown(ledger, "app"))["windows"].partition("</thead>")[0]
    assert "hosts that had passed its end" in head
    assert "completeness" not in head
    assert "completeness" in rendered("sections.html", shown(ledger, "app"))["operators"]
