"""A checkpoint that was restored from an older copy, and a database that was."""

from __future__ import annotations

import shutil
import sqlite3
from typing import TYPE_CHECKING, Any

import pytest

from tailrace.server.protocol import Report
from watermark_ledgers import Ledgers, decide, low, state
from watermark_servers import T, sink, source

if TYPE_CHECKING:
    from pathlib import Path

    from tailrace.server.answers import ReportAnswer
    from tailrace.server.ledger import Ledger

ROSTER = ["h1", "h2"]


def tell(
    ledger: Ledger,
    batches: int | None,
    *operators: dict[str, Any],
    run: str = "1",
    client: str = "q",
    **fields: object,
) -> ReportAnswer:
    body = {"client": client, "run": run, "version": 2, "operators": list(operators), **fields}
    if batches is not None:
        body["batches"] = batches
    (answer,) = ledger.report([("app", Report.model_validate(body))])
    if isinstance(answer, Exception):
        raise answer
    return answer


def hosts(h1: int, h2: int, **fields: Any) -> dict[str, Any]:  # noqa: ANN401
    """The whole table, as the first report of a run has it."""
    given = {"roster": ROSTER, "roster_version": "r", "reads": ["file:/logs"], **fields}
    return source({"h1": T + h1, "h2": T + h2}, **given)


def landed(at: int) -> dict[str, Any]:
    return sink({"0": T + at}, key_groups=1)


@pytest.fixture
def ahead(ledgers: Ledgers) -> Ledger:
    """A query that has told of 57 micro-batches."""
    ledger = ledgers.make()
    tell(ledger, 10, hosts(10, 10), landed(10), query="hourly")
    assert low(tell(ledger, 57, hosts(90, 80), landed(80), query="hourly"), "sink") == T + 80
    return ledger


def test_a_run_that_has_gone_back_isnt_told_what_it_reads_again(ledgers: Ledgers, ahead: Ledger) -> None:
    other = ledgers.make()
    # The thread that closes windows, and heartbeats, speak before the source does.
    for operators in ([], [landed(80)], [landed(-1)]):
        answer = tell(other, None, *operators, run="2", query="hourly")
        assert {low(answer, name) for name in answer.operators} <= {None}
        assert not operators or answer.global_low_watermark is None
    answer = tell(ahead, 12, landed(10), run="2", query="hourly")
    assert (low(answer, "sink"), answer.global_low_watermark) == (T + 10, T + 10), "what it says itself"
    answer = tell(other, 12, hosts(20, 15), run="2", query="hourly")
    assert low(answer) == T + 15
    assert answer.operators["source"].batches == 57
    (warning,) = answer.warnings
    for named in ("'hourly' (q)", "'source'", "12 micro-batches", "57", "older copy"):
        assert named in warning, warning
    answer = tell(ahead, 13, landed(15), run="2", query="hourly")
    assert (low(answer, "sink"), answer.global_low_watermark) == (T + 15, T + 15)
    shown = {r.client: r for r in state(ledgers.make()).topology[0].reporters}["q"]
    assert (shown.batches, shown.gone_back_from, shown.warnings) == (12, 57, [warning])
    app = ahead.app("app")
    assert app is not None
    lines = {line[1:3] for line in ahead.records.audit(app, 9, 0)}
    assert lines == {("rollback", "source"), ("rollback", "sink")}
    # It has caught up.
    answer = tell(other, 57, hosts(90, 80), landed(80), run="2", query="hourly")
    assert (low(answer), answer.warnings) == (T + 80, [])


def test_readers_and_other_queries_keep_what_they_were_told(ledgers: Ledgers, ahead: Ledger) -> None:
    told = tell(ahead, 5, source({"x": T + 85}, reads=["file:/x"]), landed(85), client="other")
    assert (low(told), told.global_low_watermark) == (T + 80, T + 80)
    tell(ahead, 12, hosts(20, 15), landed(15), run="2")
    told = tell(ahead, 6, source({"x": T + 99}), landed(99), client="other")
    assert (low(told), told.global_low_watermark) == (T + 80, T + 80)
    assert state(ledgers.make()).global_low_watermark == T + 80
    told = tell(ahead, 58, hosts(95, 90), landed(90), run="2")
    assert low(told) == T + 90
    assert tell(ahead, 7, landed(99), client="other").global_low_watermark == T + 90


def test_hosts_that_come_in_several_requests_are_all_waited_for(ahead: Ledger) -> None:
    first = source({"h1": T + 20}, reads=["file:/logs"], roster_version="r")
    answer = tell(ahead, 12, first, run="2")
    assert (low(answer), answer.need_roster) == (None, True)
    last = source({"h2": T + 15}, reads=["file:/logs"], roster_version="r", roster=ROSTER)
    answer = tell(ahead, 12, last, run="2")
    assert (low(answer), answer.need_roster) == (T + 15, False)


@pytest.mark.parametrize(("batches", "at"), [(57, 80), (58, 80), (60, 80)])
def test_a_run_that_goes_on_where_the_last_one_was_has_its_answers(
    ahead: Ledger, batches: int, at: int
) -> None:
    answer = tell(ahead, batches, landed(-1), run="2")
    assert (low(answer, "sink"), answer.global_low_watermark) == (T + at, T + at)
    answer = tell(ahead, batches, hosts(90, 80), run="2")
    assert (low(answer), answer.warnings) == (T + at, [])


def test_a_crash_that_repeats_the_last_micro_batch_is_no_rollback(ahead: Ledger) -> None:
    answer = tell(ahead, 56, hosts(70, 60), landed(60), run="2")
    assert (low(answer), low(answer, "sink"), answer.warnings) == (T + 60, T + 60, [])
    app = ahead.app("app")
    assert app is not None
    assert ahead.records.audit(app, 9, 0) == []


def test_late_words_of_the_run_itself_dont_set_it_back(ahead: Ledger) -> None:
    answer = tell(ahead, 12, hosts(20, 20))
    assert (low(answer), answer.warnings) == (T + 80, [])
    assert state(ahead).topology[0].reporters[0].batches == 57


def test_an_advance_that_stands_is_named(ahead: Ledger) -> None:
    decide(ahead, "advance", to=T + 85, confirm=True)
    answer = tell(ahead, 12, hosts(20, 15), run="2")
    assert "undo it" in answer.warnings[0]


def test_a_query_of_an_earlier_release_is_answered_as_it_was(ahead: Ledger) -> None:
    """It was started with that release again, which says nothing of micro-batches."""
    body = {"client": "q", "run": "2", "operators": [hosts(90, 80), landed(80)]}
    for run in ("2", "3"):
        (answer,) = ahead.report([("app", Report.model_validate({**body, "run": run}))])
        assert not isinstance(answer, Exception)
        assert low(answer, "sink") == T + 80
    assert low(tell(ahead, 12, hosts(90, 80), landed(80), run="4"), "sink") == T + 80


def test_going_back_twice_is_told_of_the_furthest(ahead: Ledger) -> None:
    tell(ahead, 12, hosts(20, 15), run="2")
    answer = tell(ahead, 5, hosts(9, 9), run="3")
    assert low(answer) == T + 9
    assert "57" in answer.warnings[0]
    assert tell(ahead, 56, hosts(80, 80), run="3").warnings != []
    assert tell(ahead, 57, hosts(90, 80), run="3").warnings == []


def test_a_database_of_an_older_copy_says_how_old_it_is(tmp_path: Path) -> None:
    file = tmp_path / "w.db"
    with Ledgers(f"sqlite:///{file}") as ledgers:
        tell(ledgers.make(), 10, hosts(10, 10), landed(10))
        with sqlite3.connect(file) as connection:
            connection.execute("VACUUM INTO ?", (str(tmp_path / "copy.db"),))
        answer = tell(ledgers.make(), 57, hosts(90, 80), landed(80))
        assert answer.operators["source"].batches == 10
        assert low(answer) == T + 80
    for rest in tmp_path.glob("w.db*"):
        rest.unlink()
    shutil.copy(tmp_path / "copy.db", file)
    with Ledgers(f"sqlite:///{file}") as ledgers:
        ledger = ledgers.make()
        # The host that has logged nothing since isn't in the report: the query sends all hosts again.
        answer = tell(
            ledger, 58, source({"h1": T + 99}, reads=["file:/logs"], roster_version="r"), landed(80)
        )
        assert answer.operators["source"].batches == 10
        assert low(answer) == T + 10
        answer = tell(ledger, 58, hosts(99, 80), landed(80))
        assert (low(answer), answer.operators["source"].batches) == (T + 80, 58)
