"""Silent hosts of a query whose reports go to one server of a store, then to another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from watermark_ledgers import MINUTE, low, tell
from watermark_servers import SECOND, T, source

if TYPE_CHECKING:
    from watermark_ledgers import Ledgers


def test_silence_is_counted_once_whoever_is_told(ledgers: Ledgers) -> None:
    """Each change of servers added the time since the one before last, which had been counted already."""
    servers = [ledgers.make(), ledgers.make()]
    idle_after = 10 * MINUTE

    def step(server: int, second: int, **hosts: int) -> int | None:
        ledgers.clock.wait(30 * SECOND)
        told = {"busy": T + second * SECOND, **hosts}
        return low(tell(servers[server], "q", source(told, idle_after=idle_after)))

    step(0, 0, silent=T)
    step(1, 0)
    # Two and a half minutes at one server, then as long at the other, and so on: 9.5 minutes of silence.
    for half_minutes in range(2, 20):
        found = step(half_minutes // 5 % 2, half_minutes)
        assert found == T, f"{half_minutes * 30} seconds"
    # Nor is time lost: it is silent when 10 minutes are over, and a report's pause for each change.
    for half_minutes in range(20, 26):
        found = step(half_minutes // 5 % 2, half_minutes)
    assert found == T + 25 * SECOND


def test_silence_is_counted_if_each_report_has_another_server(ledgers: Ledgers) -> None:
    """A balancer before two servers of one store."""
    servers = [ledgers.make(), ledgers.make()]
    found: list[int | None] = []
    for second in range(0, 130, 5):
        hosts: dict[str, Any] = {"busy": T + second * SECOND}
        hosts |= {"silent": T} if second == 0 else {}
        at = servers[second // 5 % 2]
        found.append(low(tell(at, "q", source(hosts, idle_after=60 * SECOND))))
        ledgers.clock.wait(5 * SECOND)
    waited = found.index(T + len([low_now for low_now in found if low_now == T]) * 5 * SECOND) * 5
    assert 60 <= waited <= 75
