"""A query whose first start is refused leaves nothing to wait for; whoever has told of rows stays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tailrace.server.identity import CONFLICT, REPLACED
from tailrace.server.reporter import RefusedError
from watermark_ledgers import MINUTE, Ledgers, decide, low, report_of, state, tell
from watermark_servers import T, sink, source

if TYPE_CHECKING:
    from tailrace.server.ledger import Ledger

X, Y, Z = "file:/x", "file:/y", "file:/z"


def landing(client: str, low_watermark: int, **fields: Any) -> dict[str, Any]:  # noqa: ANN401
    """The sink of a query that lands windows."""
    return sink({"0": low_watermark}, key_groups=1, reads=[f"folder:/{client}"], **fields)


def two_queries(ledger: Ledger) -> None:
    for client, reads in (("a", X), ("b", Y)):
        tell(ledger, client, landing(client, 0))
        tell(ledger, client, source({client: T + 5}, reads=[reads], roster=[]), landing(client, T + 5))


def refuse(ledger: Ledger, client: str, *operators: dict[str, Any], run: str = "1") -> str:
    with pytest.raises(RefusedError) as refusal:
        tell(ledger, client, *operators, run=run)
    assert refusal.value.code == CONFLICT
    return str(refusal.value)


def rise(ledger: Ledger, to: int) -> int | None:
    """The global low watermark, when the two queries have come so far."""
    for client in "ab":
        tell(ledger, client, source({client: to}), landing(client, to))
    return state(ledger).global_low_watermark


def reporters(ledger: Ledger, client: str) -> set[str]:
    topology = state(ledger).topology
    return {o.operator for o in topology if client in {r.client for r in o.reporters}}


def test_a_refused_query_leaves_nothing_to_wait_for(ledgers: Ledgers) -> None:
    ledger, other = ledgers.make(), ledgers.make()
    two_queries(ledger)
    # Again and again: a supervisor starts it anew each time.
    for run in "123":
        tell(ledger, "c", landing("c", 0), run=run)
        text = refuse(other, "c", source({}, reads=[X], roster=[]), run=run)
        assert text.count("operator=") == 1
        for one in (ledger, other, ledgers.make()):
            assert reporters(one, "c") == set()
        # The thread that closes windows asks each second, whatever became of the source.
        refuse(ledger, "c", landing("c", 0), run=run)
        tell(ledger, "c", run=run, leaving=True)
        refuse(ledgers.make(), "c", landing("c", 0), run=run)
        assert rise(ledger, T + 10 * int(run)) == T + 10 * int(run)
    app = ledger.app("app")
    assert app is not None
    lines = [line[1:5] for line in ledger.records.audit(app, 9, 0)]
    assert lines == [("refuse", "sink", None, "c")] * 3
    # When nobody else is at it any more, it is taken.
    tell(ledger, "a", leaving=True)
    tell(ledger, "c", landing("c", 0), run="4")
    answer = tell(ledger, "c", source({"c": T + 40, "a": T + 40}, reads=[X], roster=[]), run="4")
    assert low(answer) == T + 30
    assert rise(ledgers.make(), T + 50) == T + 30, "its sink is waited for from here on"


def test_the_last_word_of_a_refused_start_ends_no_later_one(ledgers: Ledgers) -> None:
    ledger, other = ledgers.make(), ledgers.make()
    two_queries(ledger)
    tell(ledger, "c", landing("c", 0), run="1")
    refuse(ledger, "c", source({}, reads=[X], roster=[]), run="1")
    tell(ledger, "c", source({"c": T + 20}, reads=[Z], roster=[], name="c"), run="2")
    # Its thread says goodbye when it wakes up.
    with pytest.raises(RefusedError) as refusal:
        tell(other, "c", run="1", leaving=True)
    assert refusal.value.code == REPLACED
    assert "was replaced by the run '2', which reports now" in str(refusal.value)
    answer = tell(ledger, "c", source({"c": T + 30}, reads=[Z], roster=[], name="c"), run="2")
    assert low(answer, "c") == T + 30


def test_the_sink_and_the_source_that_is_refused_share_a_transaction(ledgers: Ledgers) -> None:
    ledger = ledgers.make()
    two_queries(ledger)
    sunk, refused, behind = ledger.report(
        [
            report_of("c", landing("c", 0)),
            report_of("c", source({}, reads=[X])),
            report_of("c", landing("c", 0)),
        ]
    )
    assert not isinstance(sunk, Exception)
    assert isinstance(refused, RefusedError)
    assert isinstance(behind, RefusedError)
    assert rise(ledger, T + 10) == T + 10


def test_a_source_leaves_when_the_other_source_of_its_query_is_refused(ledgers: Ledgers) -> None:
    ledger = ledgers.make()
    two_queries(ledger)
    tell(ledger, "c", landing("c", 0, upstreams=["more", "source"]))
    tell(ledger, "c", source({}, name="more", reads=[Z], roster=[]))
    refuse(ledger, "c", source({}, reads=[X], roster=[]))
    assert rise(ledger, T + 10) == T + 10
    assert {o.operator for o in state(ledger).topology} == {"source", "sink"}


def test_the_only_sink_of_its_name_leaves(ledgers: Ledgers) -> None:
    ledger = ledgers.make()
    two_queries(ledger)
    tell(ledger, "c", landing("c", 0, name="windows-of-c"))
    refuse(ledger, "c", source({}, reads=[X], roster=[]))
    assert rise(ledger, T + 10) == T + 10


def test_a_refused_query_that_has_read_rows_still_counts(ledgers: Ledgers) -> None:
    """Another source of its own is refused: what it has read goes on counting."""
    ledger = ledgers.make()
    two_queries(ledger)
    tell(ledger, "c", source({"c": T + 5}, name="more", reads=[Z], roster=[]))
    tell(ledger, "c", landing("c", T + 5, upstreams=["more"]))
    refuse(ledger, "c", source({}, reads=[X], roster=[]))
    assert reporters(ledger, "c") == {"more", "sink"}
    assert rise(ledger, T + 10) == T + 5


def test_a_refused_query_that_was_let_in_before_still_counts(ledgers: Ledgers) -> None:
    """It has read nothing, and its topics have grown into another's."""
    ledger = ledgers.make()
    two_queries(ledger)
    tell(ledger, "c", landing("c", 0), source({}, reads=[Z], roster=["c"]))
    refuse(ledger, "c", source({}, reads=[X, Z]))
    assert reporters(ledger, "c") == {"source", "sink"}
    assert rise(ledger, T + 10) == T + 5


def test_a_refused_query_with_an_earlier_run_still_counts(ledgers: Ledgers) -> None:
    ledger = ledgers.make()
    two_queries(ledger)
    tell(ledger, "c", landing("c", 0), source({}, name="more", reads=[Z], roster=["c"]))
    tell(ledger, "c", landing("c", 0), run="2")
    refuse(ledger, "c", source({}, reads=[X], roster=[]), run="2")
    assert reporters(ledger, "c") == {"more", "sink"}
    assert rise(ledger, T + 10) == T + 5


def test_a_refused_query_that_had_replaced_another_still_counts(ledgers: Ledgers) -> None:
    """Its sink may have rows whose windows are open; it comes back to a source that is another's by now."""
    ledger = ledgers.make()
    tell(ledger, "c", landing("c", 0), source({}, reads=[X], roster=["a"]))
    ledgers.clock.wait(MINUTE + 1)
    two_queries(ledger)
    refuse(ledger, "c", source({}, reads=[X], roster=["a"]))
    assert reporters(ledger, "c") == {"sink"}
    assert rise(ledger, T + 10) is None
    decide(ledger, "remove", operator="sink", client="c")
    assert rise(ledger, T + 20) == T + 20
