"""Queries of one operator with one roster: over different logs, and over parts of the same logs."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from tailrace.server.hosts import HostTable, HostUnion
from tailrace.server.times import NEVER
from watermark_ledgers import MINUTE, decide, low, state, tell
from watermark_servers import T, sink, source

if TYPE_CHECKING:
    from tailrace.server.ledger import Ledger
    from watermark_ledgers import Ledgers

ROSTER = ["web-1", "web-2"]
VIEWS, CLICKS = "file:/views", "file:/clicks"


def read(ledger: Ledger, client: str, reads: str, **fields: Any) -> Any:  # noqa: ANN401
    """Both queries have the same roster, and each has its own logs."""
    progress = {host.replace("_", "-"): time for host, time in fields.items() if host.startswith("web_")}
    rest = {name: value for name, value in fields.items() if not name.startswith("web_")}
    return tell(ledger, client, source(progress, roster=ROSTER, reads=[reads], **rest))


def test_a_host_that_only_another_querys_logs_have_is_waited_for(ledgers: Ledgers) -> None:
    """S1: `_SUCCESS` said that web-2 had passed, and its clicks were still to come."""
    ledger = ledgers.make()
    assert low(read(ledger, "views", VIEWS, web_1=T + 90, web_2=T + 90)) == T + 90
    answer = read(ledger, "clicks", CLICKS, web_1=T + 90)
    assert low(answer) is None
    (warning,) = answer.warnings
    for named in ("'source'", "'web-2'", "'clicks'", "logs="):
        assert named in warning
    shown = state(ledgers.make()).topology[0]
    assert (shown.hosts, shown.hosts_behind) == (2, 1)
    assert low(read(ledger, "views", VIEWS, web_1=T + 99, web_2=T + 99)) == T + 90, "it doesn't go on"
    answer = read(ledgers.make(), "clicks", CLICKS, web_2=T + 60)
    assert (low(answer), answer.warnings) == (T + 60, [])


def test_who_reads_parts_of_the_same_logs_says_so(ledgers: Ledgers) -> None:
    """Scale-out: each host's log is in one of two partitions."""
    ledger = ledgers.make()
    first, second = "kafka:k/t/0", "kafka:k/t/1"
    assert low(read(ledger, "one", first, web_1=T + 90, logs="web")) is None
    answer = read(ledger, "two", second, web_2=T + 60, logs="web")
    assert (low(answer), answer.warnings) == (T + 60, [])
    for other in (ledger, ledgers.make()):
        assert low(read(other, "one", first, web_1=T + 95, logs="web")) == T + 60
    # A third one that doesn't say so waits for hosts of its own.
    answer = read(ledger, "three", "kafka:k/u/0", web_1=T + 99)
    assert low(answer) is None
    assert "'three'" in answer.warnings[0]
    # What a start says is of that start alone.
    decide(ledger, "remove", client="three")
    assert low(read(ledger, "one", first, web_1=T + 99)) == T + 60
    assert low(read(ledger, "two", second, web_2=T + 99, logs="web")) == T + 60


def test_a_silent_query_is_replaced_by_one_that_reads_all_of_its_input(ledgers: Ledgers) -> None:
    ledger = ledgers.make()
    first, second = "kafka:k/t/0", "kafka:k/t/1"
    read(ledger, "one", first, web_1=T + 90, logs="web")
    read(ledger, "two", second, web_2=T + 60, logs="web")
    ledgers.clock.wait(MINUTE + 1)
    # Its host's progress leaves with "two"; what "whole" has read counts.
    answer = tell(
        ledger, "whole", source({"web-1": T + 10, "web-2": T + 20}, roster=ROSTER, reads=[first, second])
    )
    assert low(answer) == T + 10
    assert [r.client for r in state(ledger).topology[0].reporters] == ["whole"]


def test_silent_and_excluded_hosts_of_ones_own_logs_arent_waited_for(ledgers: Ledgers) -> None:
    ledger = ledgers.make()
    read(ledger, "views", VIEWS, web_1=T + 90, web_2=T + 90)
    assert low(read(ledger, "clicks", CLICKS, web_1=T + 50)) is None
    decide(ledger, "exclude", host="web-2")
    assert low(read(ledger, "clicks", CLICKS)) == T + 50
    decide(ledger, "include", host="web-2")
    for step in range(1, 12):
        ledgers.clock.wait(MINUTE)
        read(ledger, "clicks", CLICKS, web_1=T + 50 + step, idle_after=4 * MINUTE)
    answer = read(ledger, "views", VIEWS, web_1=T + 91, web_2=T + 91)
    assert low(answer) == T + 90, "of web-2 its views alone are waited for"
    assert answer.warnings == []


def test_who_has_no_roster_waits_for_nobody_else(ledgers: Ledgers) -> None:
    ledger = ledgers.make()
    tell(ledger, "views", source({"web-1": T + 90, "web-2": T + 90}, reads=[VIEWS]))
    assert low(tell(ledger, "clicks", source({"web-1": T + 50}, reads=[CLICKS]))) == T + 50


def test_logs_are_of_a_source(ledgers: Ledgers) -> None:
    with pytest.raises(ValueError, match="logs"):
        tell(ledgers.make(), "q", sink({"0": T}, logs="web"))


@pytest.mark.parametrize("seed", range(200))
def test_hosts_of_several_tables_are_as_far_as_the_rule_says(seed: int) -> None:
    """By brute force: each group of logs waits for its own rosters."""
    chance = random.Random(seed)
    hosts = [f"h{n}" for n in range(4)]
    tables, logs = [], []
    for _ in range(chance.randint(2, 4)):
        table = HostTable()
        table.set_roster(chance.sample(hosts, chance.randint(0, 4)))
        table.advance({host: T + chance.randrange(9) for host in chance.sample(hosts, chance.randint(0, 4))})
        tables.append(table)
        logs.append(chance.choice(["", "", "a", "b"]))
    expected: dict[str, int] = {}
    for table, name in zip(tables, logs, strict=True):
        group = [t for t, n in zip(tables, logs, strict=True) if n == name and name] or [table]
        for host in table.roster() or _read(table):
            told = [_read(t)[host] for t in tables if host in _read(t)]
            lacks = not any(host in _read(t) for t in group)
            time = min([NEVER] * lacks + told, default=NEVER)
            expected[host] = min(time, expected.get(host, time))
    found = HostUnion().counted(tables, [], logs)
    assert {h.name: h.progress for h in found.slowest(9) if h.counts} == {
        host: None if time == NEVER else time for host, time in expected.items()
    }


def _read(table: HostTable) -> dict[str, int]:
    progress = dict(zip(table.names, table.progress.tolist(), strict=True))
    return {host: time for host, time in progress.items() if time != NEVER}
