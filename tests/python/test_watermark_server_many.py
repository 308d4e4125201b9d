"""Many reporters, hosts and key groups: what is kept of them is bounded, and so is what is said of them."""

from __future__ import annotations

import pytest

from tailrace.server.identity import CONFLICT
from tailrace.server.names import InputIndex, Inputs
from tailrace.server.reporter import RefusedError
from tailrace.server.state import Limits
from watermark_ledgers import MINUTE, Ledgers, low, state, tell
from watermark_servers import T, sink, source


def hosts_of(ledgers: Ledgers) -> int:
    app = ledgers.make().app("app")
    if app is None:
        return 0
    return sum(len(r.hosts) for o in app.operators.values() for r in o.reporters.values())


def test_rosters_of_one_report_dont_pass_the_hosts_of_an_application(ledgers: Ledgers) -> None:
    ledger = ledgers.make(Limits(hosts=5, app_hosts=6))
    many = [source({}, name=f"s{n}", roster=[f"h{n}-{i}" for i in range(5)]) for n in range(10)]
    with pytest.raises(RefusedError, match="at most 6 hosts"):
        tell(ledger, "q", *many)
    assert hosts_of(ledgers) == 0
    tell(ledger, "q", many[0])
    with pytest.raises(RefusedError, match=r"10 .*at most 6 hosts.*'s1'"):
        tell(ledger, "other", many[1])
    assert hosts_of(ledgers) == 5
    assert low(tell(ledger, "q", source({f"h0-{i}": T + i for i in range(5)}, name="s0")), "s0") == T


def test_a_roster_of_more_hosts_than_are_kept_is_refused(ledgers: Ledgers) -> None:
    ledger = ledgers.make(Limits(hosts=5))
    with pytest.raises(RefusedError, match=r"a roster of 6 hosts.*at most 5"):
        tell(ledger, "q", source({}, roster=[f"h{n}" for n in range(6)]))
    assert hosts_of(ledgers) == 0


def test_a_roster_fits_into_an_application_whatever_was_seen(ledgers: Ledgers) -> None:
    ledger = ledgers.make(Limits(hosts=5, app_hosts=8))
    tell(ledger, "q", source({f"pod-{n}": T for n in range(4)}, name="a"))
    tell(ledger, "q", source({f"pod-{n}": T for n in range(4)}, name="b"))
    both = [source({}, name=name, roster=["pod-0", "x", "y", "z"]) for name in ("a", "b")]
    assert not tell(ledger, "q", *both).warnings
    assert hosts_of(ledgers) == 8


def test_the_error_names_the_limit_that_was_exceeded(ledgers: Ledgers) -> None:
    ledger = ledgers.make(Limits(hosts=50, app_hosts=4))
    tell(ledger, "q", source({f"a{n}": T for n in range(3)}, name="a"))
    (text,) = tell(ledger, "q", source({"b0": T, "b1": T, "b2": T}, name="b")).warnings
    assert "'app'" in text
    assert "4 hosts" in text
    assert "50" not in text
    assert "'b1', 'b2'" in text


def test_key_groups_of_new_names_dont_grow_for_ever(ledgers: Ledgers) -> None:
    ledger = ledgers.make(Limits(groups=4, app_groups=6))
    source_too = source({"h": T + 9})
    tell(ledger, "q", source_too, sink({"0": T, "1": T}))
    tell(ledger, "q", sink({"2": T, "3": T}))
    with pytest.raises(RefusedError, match=r"'sink'.* at most 4 key groups"):
        tell(ledger, "q", sink({"4": T}))
    tell(ledger, "q", sink({"0": T + 1, "1": T + 1, "2": T + 1, "3": T + 1}))
    with pytest.raises(RefusedError, match="at most 6 key groups"):
        tell(ledger, "q", sink({"0": T, "1": T, "2": T}, name="more"))
    assert low(tell(ledger, "q", sink({"0": T, "1": T}, name="more")), "more") == T
    # Another shape: the former groups leave.
    assert low(tell(ledger, "q", sink({str(n): T + 5 for n in range(4, 8)}, key_groups=4)), "sink") == T + 5
    assert state(ledgers.make()).topology[1].key_groups == 4


def test_an_answer_names_some_of_the_silent_clients(ledgers: Ledgers) -> None:
    ledger = ledgers.make()
    for n in range(9):
        tell(ledger, f"dead-{n}", *(source({"h": T}, name=f"s{i}") for i in range(9)))
    ledgers.clock.wait(MINUTE)
    every = [source({"h": T}, name=f"s{i}") for i in range(9)]
    warnings = tell(ledger, "q", *every).warnings
    assert len(warnings) == 21
    assert "'s0' is reported by 'dead-0' too" in warnings[0]
    assert warnings[-1] == "and 61 others"
    assert len(set(warnings)) == 21
    few = tell(ledger, "q", *every[:2]).warnings
    assert len(few) == 18


def test_readers_of_the_same_input_are_found_by_name() -> None:
    index = InputIndex()
    reads = {f"q{n}": (f"kafka:k/t{n}/0", f"kafka:k/t{n}/1", f"file:/{n}") for n in range(50)}
    index.update(reads)
    assert index.sharing(Inputs(["kafka:k/t7", "file:/9", "file:/99"])) == {
        "q7": "kafka:k/t7/0",
        "q9": "file:/9",
    }
    index.update({**reads, "q7": ("file:/9",), "whole": ("kafka:k/t8",)})
    assert index.sharing(Inputs(["kafka:k/t7"])) == {}
    assert index.sharing(Inputs(["file:/9", "kafka:k/t8/1"])) == {
        "q7": "file:/9",
        "q9": "file:/9",
        "q8": "kafka:k/t8/1",
        "whole": "kafka:k/t8/1",
    }
    index.update({})
    assert index.sharing(Inputs([name for names in reads.values() for name in names])) == {}


def test_a_report_doesnt_scan_the_inputs_of_others(ledgers: Ledgers, monkeypatch: pytest.MonkeyPatch) -> None:
    """1,000 reporters with 10,000 names each cost the only worker seconds a report."""
    ledger = ledgers.make()
    reporters, names = 30, 200
    for n in range(reporters):
        tell(ledger, f"q{n}", source({"h": T}, reads=[f"file:/{n}/{i}" for i in range(names)]))
    looked_at = 0
    original = InputIndex.update

    def counted(index: InputIndex, reads: dict[str, tuple[str, ...]]) -> None:
        nonlocal looked_at
        before = dict(index._reads)
        original(index, reads)
        looked_at += sum(len(r) for name, r in index._reads.items() if before.get(name) is not r)

    monkeypatch.setattr(InputIndex, "update", counted)
    for step in range(10):
        tell(ledger, "q0", source({"h": T}, reads=[f"file:/0/{step}/{i}" for i in range(names)]))
    assert looked_at <= 12 * names
    with pytest.raises(RefusedError) as refusal:
        tell(ledger, "q1", source({"h": T}, reads=["file:/0/9/7"]))
    assert refusal.value.code == CONFLICT
