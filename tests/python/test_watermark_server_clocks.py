"""Live clients, while clocks jump and the clocks of servers differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tailrace.server.identity import CONFLICT
from tailrace.server.reporter import RefusedError
from watermark_ledgers import MINUTE, Ledgers, low, state, tell
from watermark_servers import SECOND, T, source

if TYPE_CHECKING:
    from tailrace.server.ledger import Ledger

LOGS = ["file:/logs"]
HOUR = 60 * MINUTE


def assert_refused(ledger: Ledger) -> None:
    with pytest.raises(RefusedError) as refusal:
        tell(ledger, "b", source({"h": T}, reads=LOGS))
    assert refusal.value.code == CONFLICT


@pytest.mark.parametrize("jump", [-HOUR, -1, HOUR])
def test_a_client_that_reports_after_a_jump_of_the_clock_lives(ledgers: Ledgers, jump: int) -> None:
    ledger, other = ledgers.make(), ledgers.make()
    tell(ledger, "a", source({"h": T}, reads=LOGS))
    state(other)
    ledgers.clock.now += jump
    for _ in range(12):
        ledgers.clock.wait(10 * SECOND)
        tell(ledger, "a")
        assert state(other).topology[0].reporters[0].live
    assert_refused(other)
    assert_refused(ledger)
    ledgers.clock.wait(MINUTE)
    assert not state(other).topology[0].reporters[0].live
    assert low(tell(other, "b", source({"h": T}, reads=LOGS))) == T


@pytest.mark.parametrize("ahead", [-90 * SECOND, 90 * SECOND])
def test_servers_with_different_clocks_agree_which_clients_live(ledgers: Ledgers, ahead: int) -> None:
    ledger, other = ledgers.make(), ledgers.make(ahead=ahead)
    ledger.load()
    other.load()
    # The application is one that came after both.
    for _ in range(9):
        tell(ledger, "a", source({"h": T}, reads=LOGS))
        assert_refused(other)
        ledgers.clock.wait(10 * SECOND)
    tell(ledger, "a", source({"h": T + 1}))
    assert_refused(other)
    ledgers.clock.wait(MINUTE)
    assert low(tell(other, "b", source({"h": T}, reads=LOGS))) == T


def test_a_server_whose_clock_is_ahead_shows_which_clients_live(ledgers: Ledgers) -> None:
    """Readers have a ledger of their own, which loads an application when somebody asks for it."""
    ledger, page = ledgers.make(), ledgers.make(ahead=90 * SECOND)
    tell(ledger, "a", source({"h": T}, reads=LOGS))
    state(page)
    ledgers.clock.wait(10 * SECOND)
    tell(ledger, "a")
    assert state(page).topology[0].reporters[0].live


def test_a_server_that_starts_knows_clients_that_were_dead(ledgers: Ledgers) -> None:
    tell(ledgers.make(), "a", source({"h": T}, reads=LOGS))
    ledgers.clock.wait(30 * SECOND)
    ledger = ledgers.make()
    ledger.load()
    assert_refused(ledger)
    ledgers.clock.wait(30 * SECOND)
    ledger = ledgers.make()
    ledger.load()
    assert low(tell(ledger, "b", source({"h": T}, reads=LOGS))) == T


def test_a_clock_that_was_ahead_doesnt_hide_silent_clients(ledgers: Ledgers) -> None:
    """`reported_at` is what alerts look at."""
    ledger = ledgers.make()
    ledgers.clock.now += HOUR
    tell(ledger, "a", source({"h": T}, reads=LOGS))
    ledgers.clock.now -= HOUR
    tell(ledger, "a", source({"h": T + 1}))
    shown = state(ledger)
    assert (shown.reported_at, shown.topology[0].reported_at) == (ledgers.clock.now,) * 2
    assert state(ledgers.make()).reported_at == ledgers.clock.now
