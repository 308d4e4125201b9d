"""What the page's sections say of operators, of those who report them, and of decisions that stand."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tailrace.server.page import rendered
from tailrace.server.sections import shown
from watermark_ledgers import MINUTE, Ledgers, decide, tell
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
    summary = rendered("sections.html", shown(ledger, "app"))["summary"]
    assert "which waits for h0, h1, h2 and 2 others." in summary
    tell(ledger, "q", source({f"h{n}": T + 1 for n in range(5)}))
    assert "which waits for" not in rendered("sections.html", shown(ledger, "app"))["summary"]
