"""Before all of its first report has arrived, a query is told nothing that its rows could be late for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tailrace.server.reporter import RefusedError
from watermark_ledgers import MINUTE, Ledgers, decide, low, state, tell
from watermark_servers import T, sink, source

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.server.ledger import Ledger


def chunk(progress: dict[str, int], version: str = "r1", **fields: Any) -> dict[str, Any]:  # noqa: ANN401
    return source(progress, roster_version=version, **fields)


def last_run(_: Ledger) -> None:
    """Nothing happens between two runs."""


def purge(ledger: Ledger) -> None:
    decide(ledger, "purge", confirm=True)


def purge_all(ledger: Ledger) -> None:
    decide(ledger, "purge", operator=None, confirm=True)


def remove(ledger: Ledger) -> None:
    decide(ledger, "remove")


def remove_client(ledger: Ledger) -> None:
    decide(ledger, "remove", client="q")


@pytest.mark.parametrize("before", [None, purge, purge_all, remove, remove_client])
@pytest.mark.parametrize("roster", [[], ["h1", "h2", "h3"]])
def test_a_source_is_held_until_its_roster_is_there(
    ledgers: Ledgers, before: Callable[[Ledger], None] | None, roster: list[str]
) -> None:
    ledger = ledgers.make()
    if before is not None:
        tell(ledger, "q", chunk({"h1": T + 1, "h9": T + 1}, roster=[]), sink({"0": T}))
        before(ledger)
    for progress in {"h1": T + 100}, {"h2": T + 100}:
        answer = tell(ledger, "q", chunk(progress))
        assert (low(answer), answer.operators["source"].input_low_watermark) == (None, None)
        assert answer.need_roster
        sunk = tell(ledger, "q", sink({"0": T + 50}), run="1")
        assert low(sunk, "sink") in {None, T if before in {remove, remove_client} else None}
    answer = tell(ledgers.make(), "q", chunk({"h3": T + 10}, roster=roster))
    assert (low(answer), answer.need_roster) == (T + 10, False)


@pytest.mark.parametrize("decision", [purge, purge_all, remove, remove_client])
@pytest.mark.parametrize("is_dead", [False, True])
def test_no_decision_cuts_a_first_report_that_comes_in_several_requests(
    ledgers: Ledgers, decision: Callable[[Ledger], None], *, is_dead: bool
) -> None:
    ledger = ledgers.make()
    tell(ledger, "q", chunk({"h1": T + 1}))
    if is_dead:
        ledgers.clock.wait(MINUTE)
        decision(ledger)
        return
    with pytest.raises(RefusedError, match="'q' is sending the hosts of 'source' in several requests"):
        decision(ledger)
    # The second request doesn't name h1: without h1 the answer would be h2's progress.
    answer = tell(ledger, "q", chunk({"h2": T + 100}, roster=[]))
    assert low(answer) == T + 1
    decision(ledger)


def test_other_reporters_of_the_source_are_held_too(ledgers: Ledgers) -> None:
    ledger = ledgers.make()
    tell(ledger, "other", source({"h1": T + 5}))
    assert low(tell(ledger, "q", chunk({"h1": T + 100}))) is None
    assert low(tell(ledger, "other", source({"h1": T + 200}))) == T + 5
    tell(ledger, "q", chunk({"h2": T + 90}, roster=[]))
    assert low(tell(ledger, "other", source({}))) == T + 90


def test_a_new_roster_holds_the_watermark_until_it_has_arrived(ledgers: Ledgers) -> None:
    ledger = ledgers.make()
    tell(ledger, "q", chunk({"h1": T + 5}, roster=["h1"]))
    held = tell(ledger, "q", chunk({"h1": T + 50, "h2": T + 50}, "r2"), run="2")
    assert (low(held), held.need_roster) == (T + 5, True)
    assert low(tell(ledger, "q", chunk({"h3": T + 20}, "r2"), run="2")) == T + 5
    done = tell(ledger, "q", chunk({"h4": T + 30}, "r2", roster=["h1", "h2", "h3", "h4"]), run="2")
    assert low(done) == T + 20


def test_a_heartbeat_before_the_first_report_gets_no_watermark(ledgers: Ledgers) -> None:
    """The progress of others would be remembered as told."""
    ledger = ledgers.make()
    tell(ledger, "a", source({"h": T + 100}), sink({"0": T + 100}))
    assert tell(ledger, "b").global_low_watermark is None
    assert tell(ledger, "b", source({})).global_low_watermark is None
    first = tell(ledger, "b", source({"h": T + 5}), sink({"0": T + 5}))
    assert (low(first), first.global_low_watermark) == (T + 5, T + 5)
    assert tell(ledger, "b").global_low_watermark == T + 5
    assert state(ledger).global_low_watermark == T + 100, "readers keep what they were told"


def test_a_source_that_has_read_nothing_gets_no_watermark(ledgers: Ledgers) -> None:
    ledger = ledgers.make()
    tell(ledger, "a", source({"h": T + 100}), sink({"0": T + 100}))
    # No sink reads from it yet, so that no sink's watermark is held by it.
    answer = tell(ledger, "b", source({}, name="more"))
    assert (low(answer, "more"), answer.global_low_watermark) == (None, None)
    ledgers.clock.wait(MINUTE)
    assert tell(ledgers.make(), "b", source({"g": T + 3}, name="more")).global_low_watermark == T + 100
