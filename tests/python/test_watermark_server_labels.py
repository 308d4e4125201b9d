"""What an operator does, in words: from the report to the store, the API, the page and the command line."""

from __future__ import annotations

import sqlite3
from http.client import HTTPConnection
from typing import TYPE_CHECKING

import pytest
from pydantic import ValidationError

import watermark_format_4
from tailrace.commands.cli import main
from tailrace.server.page import rendered
from tailrace.server.protocol import MAX_LABEL, Report
from tailrace.server.sections import shown
from watermark_ledgers import Ledgers, state, tell, unisolated
from watermark_servers import SECOND, T, report, running, sink, source

if TYPE_CHECKING:
    from pathlib import Path

    from tailrace.server.ledger import Ledger

_COUNT = "clicks/stateStoreSave-0"


def labels(ledger: Ledger) -> dict[str, str | None]:
    return {operator.operator: operator.label for operator in state(ledger).topology}


def count(label: str | None, name: str = _COUNT) -> dict[str, object]:
    said = {} if label is None else {"label": label}
    return {"operator": name, "kind": "operator", "upstreams": ["source"], "low_watermarks": {"0": T}, **said}


def test_a_label_is_kept_until_another_one_comes(ledgers: Ledgers) -> None:
    ledger = ledgers.make()
    tell(
        ledger,
        "q",
        source({"a": T}, label="source (Kafka: clicks)"),
        count("count by window"),
        sink({"0": T}),
    )
    known = {"source": "source (Kafka: clicks)", _COUNT: "count by window", "sink": None}
    assert labels(ledger) == known
    tell(ledger, "q", source({"a": T + 1}), count(None), sink({"0": T}))
    assert labels(ledger) == labels(ledgers.make()) == known, "another server has it from the store"
    tell(ledger, "q", count("count, sum(x) by window"))
    assert labels(ledger)[_COUNT] == "count, sum(x) by window"


def test_a_low_watermark_that_nobody_has_yet_is_no_time(ledgers: Ledgers) -> None:
    ledger = ledgers.make()
    tell(
        ledger, "q", source({"a": T}), count("count by window") | {"low_watermarks": {"0": 0}}, sink({"0": 0})
    )
    seen = state(ledger)
    assert (seen.global_low_watermark, seen.lag) == (None, None)
    assert {o.output_low_watermark for o in seen.topology} <= {T, None}
    assert [o.reporters[0].output_low_watermark for o in seen.topology if o.operator == "sink"] == [None]


def test_of_two_queries_both_words_are_shown_whoever_has_reported_last(ledgers: Ledgers) -> None:
    """P1: both sinks were shown as what the last one does, and a minute later as what the other does."""
    ledger = ledgers.make()
    tell(ledger, "one", source({"a": T}, label="clicks of the east"))
    ledgers.clock.wait(SECOND)
    tell(ledger, "two", source({"b": T}, label="clicks of the west"))
    both = {"source": "clicks of the east; clicks of the west"}
    assert labels(ledger) == both
    ledgers.clock.wait(SECOND)
    tell(ledger, "one", source({"a": T}))
    assert labels(ledger) == both
    tell(ledger, "three", source({"c": T}))
    assert labels(ledger) == both, "a query of an earlier release has no words"
    for name in ("four", "five"):
        tell(ledger, name, source({}, label=f"clicks of {name}"))
    (text,) = labels(ledger).values()
    assert text == "clicks of five; clicks of four; clicks of the east and 1 others"


@pytest.mark.parametrize("label", ["", "x" * (MAX_LABEL + 1), "a\nb", "a\x9b", 5, "\ud800"])
def test_a_label_is_short_and_printable(label: str | int) -> None:
    with pytest.raises(ValidationError):
        Report.model_validate(report(source({}, label=label)))
    Report.model_validate(report(source({}, label="ü" * MAX_LABEL)))


def test_the_page_has_the_words_and_the_identifier(ledgers: Ledgers) -> None:
    ledger = ledgers.make()
    tell(ledger, "q", source({"a": T, "b": T + SECOND}), count("<i>count</i> by window"), sink({"0": T}))
    tell(ledger, "gone", count("count by window", "other"), leaving=True)
    sections = {
        name: unisolated(html) for name, html in rendered("sections.html", shown(ledger, "app")).items()
    }
    words = "&lt;i&gt;count&lt;/i&gt; by window"
    assert f'{words} <small>operator</small> <small class="id">{_COUNT}</small>' in sections["operators"]
    assert f'{words} <small class="id">{_COUNT}</small>' in sections["reporters"]
    assert f'<text class="name" x="16" y="22">{words[:-1]}' in sections["topology"]
    assert f'<text class="id" x="16" y="39">{_COUNT}</text>' in sections["topology"]
    assert '<text class="id" x="16" y="39">source</text>' in sections["topology"], "its kind"
    assert f"<title>{words}, {_COUNT}, operator, reported by q</title>" in sections["topology"]
    assert "<b>count by window</b> (other): gone has ended" in sections["operators"]
    assert f'<option value="{_COUNT}">{words}</option>' in sections["names"]
    assert not any("<i>" in html for html in sections.values())


def test_the_summary_says_what_holds_the_watermark(ledgers: Ledgers) -> None:
    ledger = ledgers.make()
    tell(ledger, "q", source({"a": T + SECOND}), count("count by window"), sink({}, upstreams=[_COUNT]))
    summary = unisolated(rendered("sections.html", shown(ledger, "app"))["summary"])
    assert f"Held by <b>count by window</b> ({_COUNT})" in summary


def test_the_summary_names_the_slowest_host_where_none_is_behind_another(ledgers: Ledgers) -> None:
    ledger = ledgers.make()
    tell(ledger, "source", source({"web-2": T}), sink({"0": T}, key_groups=1))
    summary = unisolated(rendered("sections.html", shown(ledger, "app"))["summary"])
    words = "Held by <b>source</b>, whose slowest host is web-2, read up to 2025-11-21 04:40:00."
    assert words in summary


def test_the_command_line_and_the_api_have_labels_and_metrics_do_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with running(f"sqlite:///{tmp_path / 'w.db'}") as server:
        body = report(source({"a": T + SECOND}), count("count by window"), sink({}, upstreams=[_COUNT]))
        assert server.request("POST", "/v1/apps/clicks/reports", body)[0] == 200
        topology = server.request("GET", "/v1/apps/clicks")[1]["topology"]
        assert [operator["label"] for operator in topology] == [None, "count by window", None]
        assert main(["watermarks", server.url]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[2] == f"held by        {_COUNT} (count by window of query)"
        assert [*filter(None, lines[4].split("  "))][1].strip() == "what it does"
        assert lines[6].startswith(f"{_COUNT}  count by window  operator")
        connection = HTTPConnection("127.0.0.1", server.port)
        connection.request("GET", "/metrics")
        metrics = connection.getresponse().read().decode()
        connection.close()
        assert _COUNT in metrics
        assert "count by window" not in metrics


def test_a_store_of_format_3_takes_labels(tmp_path: Path) -> None:
    file = tmp_path / "w.db"
    with Ledgers(f"sqlite:///{file}") as ledgers:
        tell(ledgers.make(), "q", source({"a": T}), count("lost with the format"))
    with sqlite3.connect(file) as connection:
        watermark_format_4.make(connection)
        connection.execute("ALTER TABLE reporter DROP COLUMN label")
        connection.execute("UPDATE format SET version = 3")
    connection.close()
    with Ledgers(f"sqlite:///{file}") as ledgers:
        ledger = ledgers.make()
        assert labels(ledger) == {"source": None, _COUNT: None}
        tell(ledger, "q", source({"a": T + 1}), count("count by window"))
        assert labels(ledgers.make()) == {"source": None, _COUNT: "count by window"}
