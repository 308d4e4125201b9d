"""The hosts of several queries: times far ahead, silence, names, and hosts that are gone."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest

from tailrace.server.state import DAY, Limits
from watermark_ledgers import MINUTE, Ledgers, decide, low, state, tell
from watermark_servers import T, sink, source


def test_times_far_ahead_are_ignored(ledgers: Ledgers) -> None:
    """S5: one report took an application to the year 2255."""
    ledger = ledgers.make(Limits(future=DAY))
    far = T + DAY + 1
    answer = tell(ledger, "q", source({"h1": far, "h2": T + DAY}), sink({"0": far}, key_groups=1))
    assert (low(answer), low(answer, "sink"), answer.global_low_watermark) == (T + DAY, None, None)
    assert ["'h1'" in text and "ahead" in text for text in answer.warnings] == [True, False]
    assert len(answer.warnings) == 2
    assert state(ledger).topology[0].reporters[0].warnings == answer.warnings[:1]
    stamped = tell(ledger, "q", source({}, name="stamped", input_low_watermark=2**53 - 1))
    assert (low(stamped, "stamped"), len(stamped.warnings)) == (None, 1)
    ledgers.clock.now += 1
    assert low(tell(ledger, "q", source({"h1": far}))) == T + DAY


def test_hosts_that_are_gone_are_forgotten(ledgers: Ledgers) -> None:
    """S3: pod names fill the table of a source for good."""
    ledger = ledgers.make(Limits(forget_hosts_after=DAY, hosts=5))
    tell(ledger, "q", source({f"pod-{n}": T + n for n in range(5)}))
    held = tell(ledger, "q", source({"pod-5": T + 90, "pod-0": T + 90}))
    assert low(held) == T
    assert "'pod-5'" in held.warnings[0]
    for step in range(60):
        ledgers.clock.wait(DAY // 48)
        answer = tell(ledger, "q", source({"pod-0": T + 100 + step}))
    assert (low(answer), answer.warnings) == (T + 159, [])
    assert state(ledger).topology[0].hosts == 1
    fresh = tell(ledger, "q", source({"pod-6": T + 200}))
    assert (low(fresh), fresh.warnings) == (T + 159, [])
    # Another server knows of what was forgotten, and downtime makes nobody silent.
    other = ledgers.make(Limits(forget_hosts_after=DAY, hosts=5))
    assert state(other).topology[0].hosts == 2
    ledgers.clock.wait(9 * DAY)
    tell(other, "q", source({"pod-0": T + 300}))
    assert state(other).topology[0].hosts == 2


def test_a_roster_fits_whatever_hosts_were_seen(ledgers: Ledgers) -> None:
    ledger = ledgers.make(Limits(hosts=4))
    tell(ledger, "q", source({f"pod-{n}": T + n for n in range(4)}))
    names = ["pod-3", "a", "b", "c"]
    assert low(tell(ledger, "q", source({}, roster=names))) == T
    answer = tell(ledger, "q", source({"a": T + 9, "b": T + 9, "c": T + 9, "stranger": T + 9}))
    assert (low(answer), answer.warnings) == (T + 3, [])


def test_silence_is_counted_while_others_rise_and_all_is_read(ledgers: Ledgers) -> None:
    """W5: a night, a pause, an unread backlog, a jump of the ledgers.clock."""

    def hosts(**progress: int) -> dict[str, Any]:
        return source(progress, roster=["h1", "h2"], idle_after=4 * MINUTE)

    ledger = ledgers.make()
    tell(ledger, "q", hosts(h1=T, h2=T))
    ledgers.clock.wait(600 * MINUTE)  # a night in which nobody logs, and h1 is the first one
    assert low(tell(ledger, "q", hosts(h1=T + 1))) == T
    ledgers.clock.now += DAY
    assert low(tell(ledger, "q", hosts(h1=T + 2))) == T
    ledgers.clock.wait(600 * MINUTE)  # down, and then a backlog
    for step in range(20):
        ledgers.clock.wait(MINUTE)
        assert low(tell(ledger, "q", {**hosts(h1=T + 3 + step), "unread": True}, run="2")) == T
    tell(ledger, "q", hosts(h2=T + 1), run="2")
    for step in range(3):
        ledgers.clock.wait(MINUTE)
        assert low(tell(ledger, "q", hosts(h1=T + 50 + step), run="2")) == T + 1
    ledgers.clock.wait(MINUTE)
    answer = tell(ledger, "q", hosts(h1=T + 90), run="2")
    assert (low(answer), answer.idle_hosts) == (T + 90, {"source": ["h2"]})


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("", "%"),
        ("a\nb", "a%0Ab"),
        ("100%\t", "100%25%09"),
        ("100%", "100%"),
        ("x" * 201, None),
        ("ü\x85", "ü%C2%85"),
    ],
)
def test_a_host_may_have_any_name(ledgers: Ledgers, name: str, kept: str | None) -> None:
    """S1: one row refused the whole report for ever."""
    ledger = ledgers.make()
    answer = tell(ledger, "q", source({name: T + 1, "h": T + 5}, roster=["h", name]))
    assert low(answer) == T + 1
    decide(ledger, "exclude", host=kept or "x" * 183 + "~" + sha256(name.encode()).hexdigest()[:16])
    assert low(tell(ledger, "q", source({name: T + 2}))) == T + 5
