"""Clients and runs: two queries of one operator, runs that replace others, databases of format 2."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import watermark_format_2
from tailrace.server.identity import CONFLICT, REPLACED
from tailrace.server.ledger import Ledger
from tailrace.server.opening import open_database
from tailrace.server.protocol import Report
from tailrace.server.reporter import RefusedError
from tailrace.server.state import DAY
from tailrace.server.store import Store
from tailrace.server.views import app_state
from watermark_ledgers import MINUTE, Ledgers, decide, low, state, tell
from watermark_servers import SECOND, T, sink, source

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tailrace.server.answers import ReportAnswer


def test_the_slower_of_two_sinks_of_one_name_counts(ledgers: Ledgers) -> None:
    """W1: B would close windows that it has not filled."""
    ledger = ledgers.make()
    tell(ledger, "a", source({"h": T + 55}, name="source-a"), sink({"0": T + 55}, upstreams=["source-a"]))
    answer = tell(
        ledger, "b", source({"h": T + 1}, name="source-b"), sink({"0": T + 1}, upstreams=["source-b"])
    )
    assert (low(answer, "sink"), answer.global_low_watermark) == (T + 1, T + 1)
    again = tell(ledger, "a", sink({"0": T + 60}, upstreams=["source-a"]))
    assert low(again, "sink") == T + 55, "what it was told stays told"
    assert {r.client for r in state(ledger).topology[1].reporters} == {"a", "b"}
    assert state(ledger).topology[1].upstreams == ["source-a", "source-b"]


def test_a_new_reporter_isnt_told_the_progress_of_others(ledgers: Ledgers) -> None:
    """W2: two queries with the default name."""
    ledger = ledgers.make()
    tell(ledger, "a", source({"h": T + 55}))
    assert low(tell(ledger, "b", source({}), sink({}))) is None
    mute = tell(ledger, "b", sink({}))
    assert (mute.operators["sink"].input_low_watermark, mute.global_low_watermark) == (None, None)
    first = tell(ledger, "b", source({"h": T + 1}), sink({}))
    assert (low(first), low(first, "sink"), first.operators["sink"].input_low_watermark) == (T + 1,) * 3
    assert low(tell(ledger, "a", source({"h": T + 60}))) == T + 55
    assert low(tell(ledger, "b", source({"h": T + 70}))) == T + 60
    assert state(ledger).topology[0].output_low_watermark == T + 60


def test_rosters_are_united_and_the_strictest_completeness_counts(ledgers: Ledgers) -> None:
    """W3: the last roster won."""
    ledger = ledgers.make()
    logs = {"logs": "web"}
    tell(ledger, "a", source({"h1": T + 60}, roster=["h1", "h2"], completeness="1", **logs))
    answer = tell(ledger, "b", source({"h3": T + 60}, roster=["h3"], completeness="0.5", **logs))
    assert low(answer) is None, "h2 is waited for"
    assert any("completeness" in text and "strictest" in text for text in answer.warnings)
    assert low(tell(ledger, "b", source({"h2": T + 7}, **logs))) == T + 7
    assert state(ledger).topology[0].hosts == 3


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        (["kafka:k/t/0"], ["kafka:k/t/0"], True),
        (["kafka:k/t/0"], ["kafka:k/t/1"], False),
        (["kafka:k/t"], ["kafka:k/t/1"], True),
        (["kafka:k/t/1"], ["kafka:k/t"], True),
        (["kafka:k/t"], ["kafka:k/u/1"], False),
        (["kafka:k/t"], ["kafka:other/t"], False),
        (["kafka:k/t"], ["kafka:k/t"], True),
        (["kafka:k/1"], ["kafka:k/1/0"], True),
        (["file:/logs"], ["file:/logs"], True),
        (["file:/logs"], ["file:/logs2"], False),
        (["file:/logs", "kafka:k/t/3"], ["kafka:k/t"], True),
    ],
)
def test_two_live_queries_that_read_the_same_are_refused(
    ledgers: Ledgers, one: list[str], other: list[str], shared: bool
) -> None:
    ledger = ledgers.make()
    tell(ledger, "a", source({"h": T + 55}, reads=one))
    before = state(ledger)
    report = source({"h": T + 1}, reads=other)
    if not shared:
        assert low(tell(ledger, "b", report)) == T + 1
        return
    with pytest.raises(RefusedError) as refusal:
        tell(ledger, "b", report)
    assert refusal.value.code == CONFLICT
    assert all(text in str(refusal.value) for text in ("'a'", "'b'", "operator="))
    assert state(ledger) == before
    assert low(tell(ledger, "a", source({"h": T + 60}))) == T + 60, "the first one goes on"


def test_a_conflict_names_both_queries_as_their_users_know_them(ledgers: Ledgers) -> None:
    ledger = ledgers.make()
    reads = ["file:/logs"]

    def report(client: str, query: str | None, run: str, *, leaving: bool = False) -> None:
        operators = [source({f"h-{client}": T + 5}, reads=[*reads, f"file:/{client}"])]
        body = {"client": client, "run": run, "operators": [] if leaving else operators, "leaving": leaving}
        sent = Report.model_validate(body | ({} if query is None else {"query": query}))
        (answer,) = ledger.report([("app", sent)])
        if isinstance(answer, Exception):
            raise answer

    report("id-1", "clicks by hour", "run-1")
    with pytest.raises(RefusedError) as refusal:
        report("id-2", "clicks by day", "run-2")
    assert "the query 'clicks by day' (id 'id-2', run 'run-2')" in str(refusal.value)
    assert "the query 'clicks by hour' (id 'id-1', run 'run-1')" in str(refusal.value)
    assert "Give each an operator= of its own, or stop one" in str(refusal.value)
    with pytest.raises(
        RefusedError, match="the query of the id 'id-3', run 'run-3' and the query 'clicks by h"
    ):
        report("id-3", None, "run-3")
    report("id-1", "clicks by hour", "run-1", leaving=True)
    with pytest.raises(
        RefusedError, match=r"was reported by the query 'clicks by hour' .id 'id-1', run 'run-1'."
    ):
        report("id-2", "clicks by day", "run-2")
    report("id-1", "clicks by hour", "run-4")
    with pytest.raises(
        RefusedError, match=r"the run 'run-1' of the query 'clicks by hour' .id 'id-1'. was repl"
    ):
        report("id-1", "clicks by hour", "run-1")


def test_unknown_inputs_overlap_nothing(ledgers: Ledgers) -> None:
    ledger = ledgers.make()
    tell(ledger, "script", source({"h": T + 55}), run="")
    assert low(tell(ledger, "b", source({"h": T + 1}, reads=["file:/logs"]))) == T + 1


def test_a_query_with_a_new_checkpoint_replaces_the_ended_one(ledgers: Ledgers) -> None:
    ledger = ledgers.make()
    reads = ["file:/logs"]
    tell(ledger, "old", source({"h1": T + 55, "gone": T + 1}, reads=reads))
    ledgers.clock.wait(59 * SECOND)
    tell(ledger, "old")  # a heartbeat
    ledgers.clock.wait(59 * SECOND)
    with pytest.raises(RefusedError, match="both of them have 'file:/logs'"):
        tell(ledger, "new", source({"h1": T + 2}, reads=reads))
    ledgers.clock.wait(SECOND)
    assert low(tell(ledger, "new", source({"h1": T + 2}, reads=reads))) == T + 2
    app = ledger.app("app")
    assert app is not None
    (line,) = ledger.records.audit(app, 9, 0)
    assert line[1:5] == ("replace", "source", None, "old")
    assert low(tell(ledger, "new", source({"h1": T + 80}))) == T + 80, "nobody waits for `gone`"
    # The old one was only slow: it is loud about it.
    with pytest.raises(RefusedError) as refusal:
        tell(ledger, "old", source({"h1": T + 56}, reads=reads))
    assert refusal.value.code == CONFLICT


def test_operators_behind_a_source_are_replaced_with_it(ledgers: Ledgers) -> None:
    ledger = ledgers.make()
    tell(ledger, "old", source({"h": T + 5}, reads=["file:/logs"]), sink({"0": T + 1}))
    ledgers.clock.wait(MINUTE)
    tell(ledgers.make(), "new", source({"h": T + 9}, reads=["file:/logs"]))
    # A server that has started since knows of it too.
    assert low(tell(ledgers.make(), "new", sink({"0": T + 9})), "sink") == T + 9
    tell(ledger, "apart", sink({"0": T + 2}))
    ledgers.clock.wait(MINUTE)
    assert low(tell(ledger, "new", sink({"0": T + 30})), "sink") == T + 9
    assert {r.client for r in state(ledger).topology[1].reporters} == {"new", "apart"}


def test_a_query_that_has_left_counts_and_can_be_replaced_at_once(ledgers: Ledgers) -> None:
    ledger = ledgers.make()
    tell(ledger, "old", source({"h": T + 5}, reads=["file:/logs"]))
    tell(ledger, "old", leaving=True)
    held = tell(ledger, "other", source({"h": T + 50}, reads=["file:/more"]))
    assert low(held) == T + 5
    assert any("'old'" in text for text in held.warnings)
    assert low(tell(ledger, "new", source({"h": T + 70}, reads=["file:/logs"]))) == T + 50


def test_a_silent_query_counts_until_a_person_removes_it(ledgers: Ledgers) -> None:
    ledger = ledgers.make()
    tell(ledger, "dead", source({"h": T + 1}, reads=["file:/a"]))
    ledgers.clock.wait(10 * DAY)
    assert low(tell(ledger, "b", source({"h": T + 50}, reads=["file:/b"]))) == T + 1
    shown = state(ledger)
    assert (shown.held_by, shown.held_by_clients) == (["source"], ["dead"])
    decide(ledger, "remove", client="dead")
    assert low(tell(ledger, "b", source({}))) == T + 50
    with pytest.raises(RefusedError, match="no client"):
        decide(ledger, "remove", client="dead")
    decide(ledger, "remove", client="b", operator=None)
    assert state(ledger).topology == []


@pytest.mark.parametrize("jump", [-DAY, DAY])
def test_a_jump_of_the_clock_makes_nobody_live_or_dead(ledgers: Ledgers, jump: int) -> None:
    ledger = ledgers.make()
    tell(ledger, "a", source({"h": T}, reads=["file:/logs"]))
    ledgers.clock.now += jump
    with pytest.raises(RefusedError, match="queries that live"):
        tell(ledger, "b", source({"h": T}, reads=["file:/logs"]))
    ledgers.clock.tick += MINUTE
    assert low(tell(ledger, "b", source({"h": T}, reads=["file:/logs"]))) == T


def test_a_new_run_takes_over_and_the_old_one_is_refused(ledgers: Ledgers) -> None:
    ledger = ledgers.make()
    tell(ledger, "q", source({"h": T + 5}, reads=["file:/logs"]), run="1")
    ledgers.clock.now -= 60 * MINUTE  # W4: no clock is asked which run is newer
    answer = tell(ledger, "q", source({"h": T + 6}, roster=["h"], roster_version="b"), run="2")
    assert (low(answer), answer.need_roster) == (T + 6, False)
    for body in (source({"h": T + 90}),), ():
        with pytest.raises(RefusedError) as refusal:
            tell(ledgers.make(), "q", *body, run="1")
        assert refusal.value.code == REPLACED
    assert low(tell(ledger, "q", source({"h": T + 7}), run="2")) == T + 7
    # To go back to a run on purpose.
    decide(ledger, "remove", client="q")
    assert low(tell(ledger, "q", source({"h": T + 9}), run="1")) == T + 9


def test_a_client_that_names_no_run_is_never_replaced_by_a_run(ledgers: Ledgers) -> None:
    ledger = ledgers.make()
    for step in range(3):
        assert low(tell(ledger, "script", source({"h": T + step}), run="")) == T + step
    tell(ledger, "script", source({"h": T + 5}), run="1")
    with pytest.raises(RefusedError, match="names no run"):
        tell(ledger, "script", source({"h": T + 6}), run="")


def test_key_groups_of_a_former_shape_leave(ledgers: Ledgers) -> None:
    """S2: six of eight old groups never report again."""
    ledger = ledgers.make()
    tell(ledger, "q", source({"h": T + 50}), sink({str(n): T + n for n in range(8)}, key_groups=8))
    answer = tell(ledger, "q", sink({"0": T + 20, "1": T + 30}, key_groups=2), run="2")
    assert low(answer, "sink") == T + 20
    other = ledgers.make()
    assert low(tell(other, "q", sink({"0": T + 25}, key_groups=2), run="2"), "sink") == T + 25
    # A group that was never reported holds what is there.
    assert low(tell(ledger, "q", sink({"0": T + 40}, key_groups=3), run="2"), "sink") == T + 25
    assert low(tell(ledger, "q", sink({"1": T + 41, "2": T + 42}, key_groups=3), run="2"), "sink") == T + 40
    decide(ledger, "remove", operator="sink")
    assert low(tell(ledger, "q", sink({"5": T + 60}), run="2"), "sink") == T + 50


def test_a_sqlite_database_of_format_2_is_migrated(tmp_path: Path) -> None:
    database = open_database(watermark_format_2.make(tmp_path / "old.db"))
    ledger = Ledger(database, Store(database), lambda: T + MINUTE)
    app = ledger.app("clicks")
    assert app is not None
    shown = app_state(app, ledger.now(), ledger.limits)
    assert (shown.global_low_watermark, [o.operator for o in shown.topology]) == (T, ["source", "sink"])
    assert (shown.topology[0].hosts, shown.topology[0].hosts_excluded) == (2, 1)
    assert shown.topology[1].upstreams == ["source"], "through the operator that was removed"
    assert len(ledger.records.windows(app, None, 9, 0)) == len(ledger.records.audit(app, 9, 0)) == 1

    def report(client: str, *operators: Mapping[str, Any], run: str = "") -> ReportAnswer:
        body = {"client": client, "run": run, "operators": list(operators)}
        (answer,) = ledger.report([("clicks", Report.model_validate(body))])
        assert not isinstance(answer, Exception)
        return answer

    # Its client, as it was, of the release before.
    known = report("query", source({"h2": T + 3}, roster_version=1763700000000))
    assert (low(known), known.need_roster) == (T + 3, False)
    # A second query, whose hosts the first one's row had taken: each is as far as the one that reads it.
    two = report("query-2", source({"h1": T + 8}, roster=["h1", "gone"], roster_version="x"), run="1")
    assert low(two) == T + 3
    assert low(report("query", source({"h2": T + 20}, roster_version="y", roster=["h2"]), run="1")) == T + 8
    # Key groups of whoever it was leave when somebody says how many there are.
    sinks = report("query/sink", sink({"0": T + 4}, upstreams=["source"], key_groups=1), run="1")
    assert sinks.operators["sink"].output_low_watermark == T + 4
    database.close()
    again = open_database(f"sqlite:///{tmp_path / 'old.db'}")
    assert Ledger(again, Store(again)).names() == ["clicks"]
    again.close()
