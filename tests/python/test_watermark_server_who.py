"""Two queries with the names that a user gets by default: who is who, on the pages and the command line."""

from __future__ import annotations

from http.client import HTTPConnection
from typing import TYPE_CHECKING, Any

from tailrace.commands.cli import main
from tailrace.server.api import known_app
from tailrace.server.choice import Choice
from tailrace.server.hostpages import Asked, host_page
from tailrace.server.page import rendered
from tailrace.server.protocol import Report
from tailrace.server.reporters import shown_holders, shown_name
from tailrace.server.sections import shown, shown_hosts
from watermark_ledgers import Ledgers, state, unisolated
from watermark_servers import SECOND, T, running, sink, source

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tailrace.server.answers import ReporterState

ROSTER = ["web-1", "web-2"]


def bodies() -> list[dict[str, Any]]:
    """`a` has read nothing of web-1's log, `b` has, and its sink is behind."""
    return [
        {
            "client": f"client-{name}",
            "run": f"run-{name}",
            "query": f"hourly-{name}",
            "version": 2,
            "operators": [
                source(
                    hosts, roster=ROSTER, label=f"source (files: logs-{name})", reads=[f"file:/logs-{name}"]
                ),
                sink(
                    {"0": low},
                    key_groups=1,
                    label=f"windows in hours-{name}",
                    reads=[f"folder:/hours-{name}"],
                ),
            ],
        }
        for name, hosts, low in (
            ("a", {"web-2": T + 9}, T + 9),
            ("b", {"web-1": T + 5, "web-2": T + 5}, T + 3),
        )
    ]


def take(ledgers: Ledgers, order: list[int]) -> None:
    ledger = ledgers.make()
    for place in order:
        (answer,) = ledger.report([("app", Report.model_validate(bodies()[place]))])
        assert not isinstance(answer, Exception)
        ledgers.clock.wait(SECOND)


def by_query(ledgers: Ledgers, operator: str) -> dict[str | None, ReporterState]:
    (found,) = (o for o in state(ledgers.make()).topology if o.operator == operator)
    return {reporter.query: reporter for reporter in found.reporters}


def test_a_description_belongs_to_its_reporter(ledgers: Ledgers) -> None:
    before = None
    for order in ([0, 1], [0], [1], [1, 0]):
        take(ledgers, order)
        sunk = by_query(ledgers, "sink")
        assert {name: r.label for name, r in sunk.items()} == {
            "hourly-a": "windows in hours-a",
            "hourly-b": "windows in hours-b",
        }
        assert sunk["hourly-a"].reads == ["folder:/hours-a"]
        assert (sunk["hourly-b"].run, sunk["hourly-b"].client) == ("run-b", "client-b")
        ledger = ledgers.make()
        app = known_app(ledger, "app")
        now = ledger.clock()
        held = rendered("sections.html", shown(ledger, "app"))["summary"].partition('<p id="held">')[2]
        before = before or held
        assert held == before, "it doesn't change with who has reported last"
        hosts = host_page(app, Asked(operator="source"), now, ledger.limits).hosts
        assert {h.host: h.queries for h in hosts} == {"web-1": ["hourly-a"], "web-2": ["hourly-b"]}


def test_an_answer_names_the_other_queries_that_hold_a_source_back(ledgers: Ledgers) -> None:
    ledger = ledgers.make()
    told = {}
    for _ in range(2):
        for number, body in enumerate(bodies()):
            (answer,) = ledger.report([("app", Report.model_validate(body))])
            assert not isinstance(answer, Exception)
            told[number] = answer.held_by
        ledgers.clock.wait(SECOND)
    assert told == {0: {}, 1: {"source": ["hourly-a"]}}


def test_the_page_says_who_holds_and_waits_for_what(ledgers: Ledgers) -> None:
    take(ledgers, [0, 1])
    sources = by_query(ledgers, "source")
    assert {name: r.holds for name, r in sources.items()} == {"hourly-a": True, "hourly-b": False}
    ledger = ledgers.make()
    sections = {
        name: unisolated(html) for name, html in rendered("sections.html", shown(ledger, "app")).items()
    }
    assert "source (files: logs-a) of hourly-a)" in sections["summary"]
    assert "waits for web-1 of hourly-a" in sections["summary"]
    reporters = sections["reporters"]
    for name in "ab":
        named = f'<td class="name">hourly-{name} <small class="id">client-{name}</small></td>'
        for text in (named, f"windows in hours-{name}", f"file:/logs-{name}"):
            assert text in reporters, text
    assert "reported by hourly-b, hourly-a</title>" in sections["topology"]
    assert ">hourly-a</td>" in unisolated(
        rendered("chosen.html", shown_hosts(ledger, Choice("app")))["hosts"]
    )


def test_two_queries_of_one_name_are_told_apart_by_their_ids() -> None:
    same = {"query": "hourly", "holds": True, "label": None}
    both = [{**same, "client": "one"}, {**same, "client": "two"}]
    assert shown_holders(both) == "hourly (one), hourly (two)"
    words = [{**one, "label": "clicks"} for one in both[:1]]
    assert shown_holders(words) == "clicks of hourly"
    assert shown_holders(words, "clicks") == "hourly"
    assert shown_name(both[0], [both[0], {**both[1], "query": "daily"}]) == "hourly"
    assert shown_name({**both[0], "query": None}, both) == "one"


def test_the_command_line_and_metrics_say_who(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with running(f"sqlite:///{tmp_path / 'w.db'}") as server:
        for body in bodies():
            server.post(body, app="clicks")
        assert main(["watermarks", server.url]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[2] == "held by        source (source (files: logs-a) of hourly-a)"
        (row,) = (line for line in lines if "windows in hours-b" in line and line.startswith("hourly-b"))
        for text in ("hourly-b (client-b)", "sink", "folder:/hours-b", "run-b", "live"):
            assert text in row
        (row,) = (line for line in lines if "file:/logs-a" in line)
        assert row.endswith("live, waited for")
        (row,) = (line for line in lines if line.startswith("web-1"))
        assert row.split()[1:3] == ["source", "hourly-a"]
        connection = HTTPConnection("127.0.0.1", server.port)
        connection.request("GET", "/metrics")
        metrics = connection.getresponse().read().decode()
        connection.close()
        (line,) = (line for line in metrics.splitlines() if 'logs="folder:/hours-a"' in line)
        for label in ('client="client-a"', 'operator="sink"', 'query="hourly-a"', 'run="run-a"'):
            assert label in line
        assert line.startswith("tailrace_watermark_reporter_live{")
