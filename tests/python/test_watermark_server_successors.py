"""A client that takes the place of another: what leaves with the former one, and what still counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import watermark_format_2
from tailrace.server.identity import CONFLICT
from tailrace.server.reporter import RefusedError
from watermark_ledgers import MINUTE, Ledgers, decide, low, report_of, state, tell, tell_together
from watermark_servers import T, sink, source

if TYPE_CHECKING:
    from pathlib import Path

X, Y = "kafka:k/x/0", "kafka:k/y/0"


def audit(ledgers: Ledgers) -> list[str]:
    ledger = ledgers.make()
    app = ledger.app("app")
    assert app is not None
    return [f"{line[1]} {line[2]} {line[4]}" for line in reversed(ledger.records.audit(app, 99, 0))]


@pytest.mark.parametrize("with_report", [False, True])
def test_a_query_that_ends_and_its_successor_share_a_batch(ledgers: Ledgers, *, with_report: bool) -> None:
    ledger = ledgers.make()
    tell(ledger, "a", source({"h": T + 5}, reads=[X]))
    before = [report_of("a", source({"h": T + 6}, reads=[X]))] if with_report else []
    *mine, left, first = tell_together(
        ledger, *before, report_of("a", leaving=True), report_of("b", source({"h": T + 2}, reads=[X]))
    )
    assert [low(answer) for answer in mine] == [T + 6] * with_report
    assert (left.operators, left.global_low_watermark) == ({}, T + 5 + with_report)
    assert low(first) == T + 2
    assert {r.client for r in state(ledgers.make()).topology[0].reporters} == {"b"}


def test_queries_that_follow_each_other_in_one_batch(ledgers: Ledgers) -> None:
    ledger = ledgers.make()
    reports = []
    for step, client in enumerate("abcd"):
        reports += [
            report_of(client, source({"h": T + step}, reads=[X])),
            report_of(client, source({"h": T + 10 * step}, reads=[X]), leaving=True),
            report_of(client, leaving=True),
        ]
    answers = tell_together(ledger, *reports)
    assert [low(answer) for answer in answers[1::3]] == [T, T + 10, T + 20, T + 30]
    assert audit(ledgers) == ["replace source a", "replace source b", "replace source c"]


@pytest.mark.parametrize(
    ("one", "other", "rest"),
    [
        ([X, Y], [X], Y),
        ([X, Y], [X, "kafka:k/z/0"], Y),
        (["kafka:k/x"], [X], "kafka:k/x"),
        (["kafka:k/x", "file:/a"], ["kafka:k/x", "file:/b"], "file:/a"),
        ([X], ["kafka:k/x"], None),
        ([X, "kafka:k/x/1", "kafka:k/x/2", Y], ["kafka:k/x", Y], None),
        ([X, Y], [Y, X, "kafka:k/z/0"], None),
    ],
)
def test_a_reader_of_a_part_doesnt_replace_a_reader_of_the_whole(
    ledgers: Ledgers, one: list[str], other: list[str], rest: str | None
) -> None:
    ledger = ledgers.make()
    tell(ledger, "a", source({"h1": T + 100, "h2": T + 10}, reads=one))
    assert state(ledger).global_low_watermark == T + 10
    ledgers.clock.wait(MINUTE + 1)
    if rest is not None:
        with pytest.raises(RefusedError) as refusal:
            tell(ledger, "b", source({"h1": T + 100}, reads=other))
        assert refusal.value.code == CONFLICT
        assert all(text in str(refusal.value) for text in ("'a'", repr(rest), "remove", "operator="))
        assert state(ledger).global_low_watermark == T + 10
        decide(ledger, "remove", client="a")
    assert low(tell(ledger, "b", source({"h1": T + 100}, reads=other))) == T + 100


def test_many_inputs_without_a_reader_are_named_in_part_and_counted(ledgers: Ledgers) -> None:
    ledger = ledgers.make()
    tell(ledger, "a", source({}, reads=[f"file:/{n}" for n in range(9)]), leaving=True)
    with pytest.raises(RefusedError, match=r"'file:/5' and 3 others"):
        tell(ledger, "b", source({}, reads=["file:/0"]))


def test_operators_whose_order_is_reversed_are_no_circle(ledgers: Ledgers) -> None:
    ledger = ledgers.make()

    def chain(first: str, second: str) -> list[dict[str, object]]:
        part = {"kind": "operator"}
        return [
            sink({"0": T + 5}, upstreams=[second]),
            {"operator": second, "upstreams": [first], **part},
            {"operator": first, "upstreams": ["source"], **part},
            source({"h": T + 5}, reads=[X]),
        ]

    tell(ledger, "q", *chain("a", "b"))
    answer = tell(ledger, "q", *chain("b", "a"), run="2")
    assert (low(answer, "a"), answer.global_low_watermark) == (T + 5, T + 5)
    assert {o.operator: o.upstreams for o in state(ledgers.make()).topology} == {
        "source": [],
        "b": ["source"],
        "a": ["b"],
        "sink": ["a"],
    }
    # A new checkpoint takes the place of what was there, edges too.
    ledgers.clock.wait(MINUTE)
    answer = tell(ledger, "new", *chain("a", "b"))
    assert (low(answer, "b"), answer.global_low_watermark) == (T + 5, T + 5)
    # The upstreams of another client make a circle.
    with pytest.raises(RefusedError, match="in a circle: "):
        tell(ledger, "apart", *chain("b", "a")[:-1])


def test_a_replaced_client_is_forgotten_when_it_is_gone(ledgers: Ledgers) -> None:
    ledger = ledgers.make()
    for step in range(5):
        tell(ledger, f"q{step}", source({"h": T + step}, reads=[X]), sink({"0": T + step}))
        ledgers.clock.wait(MINUTE)
        tell(ledger, "keeper", source({"h": T + step}, reads=[X]), sink({"0": T + step}))
        tell(ledger, "keeper", leaving=True)
    app = ledgers.make().app("app")
    assert app is not None
    assert app.clients.keys() == {"keeper"}
    tell(ledger, "keeper", source({"h": T + 9}))
    app = ledgers.make().app("app")
    assert app is not None
    assert app.clients["keeper"].took == set()


def test_a_sink_of_format_2_leaves_when_another_query_reports_its_key_groups(tmp_path: Path) -> None:
    """Its client was "windows of PATH", and is now the query's."""
    with Ledgers(watermark_format_2.make(tmp_path / "old.db")) as ledgers:
        ledger = ledgers.make()

        def sunk(client: str, **groups: int) -> int | None:
            body = sink({n[1:]: t for n, t in groups.items()}, upstreams=["source"], key_groups=len(groups))
            (answer,) = tell_together(ledger, report_of(client, body, app="clicks"))
            return low(answer, "sink")

        tell_together(ledger, report_of("query", source({"h1": T + 70, "h2": T + 70}), app="clicks"))
        # It may be at work still, with a driver of the release before.
        assert sunk("query", g0=T + 50) == T
        ledgers.clock.wait(MINUTE)
        other = ledgers.make()
        shown = state(other, "clicks").topology[1].reporters
        assert {r.client for r in shown} == {"query", "query/sink"}
        assert sunk("query", g0=T + 60) == T + 60
        assert [r.client for r in state(other, "clicks").topology[1].reporters] == ["query"]
        # The hosts that it had read go on counting.
        assert state(ledger, "clicks").topology[0].hosts == 2


def test_a_sink_of_format_2_that_reports_again_stays(tmp_path: Path) -> None:
    with Ledgers(watermark_format_2.make(tmp_path / "old.db")) as ledgers:
        ledger = ledgers.make()
        body = sink({"7": T + 2}, upstreams=["source"])
        tell_together(ledger, report_of("query/sink", body, run="", app="clicks"))
        ledgers.clock.wait(MINUTE)
        body = sink({"0": T + 60}, upstreams=["source"], key_groups=1)
        tell_together(ledger, report_of("query", body, app="clicks"))
        assert len(state(ledger, "clicks").topology[1].reporters) == 2


def test_a_report_replaces_the_inherited_progress_of_a_host_of_format_2(tmp_path: Path) -> None:
    """Another query's maximum would make its own rows late."""
    with Ledgers(watermark_format_2.make(tmp_path / "old.db")) as ledgers:
        ledger, other = ledgers.make(), ledgers.make()
        state(other, "clicks")
        (answer,) = tell_together(ledger, report_of("new", source({"h1": T + 1, "h2": T + 50}), app="clicks"))
        assert low(answer) == T + 1
        mine = source({"h1": T + 2, "h2": T + 40}, roster_version=1763700000000)
        (answer,) = tell_together(ledger, report_of("query", mine, app="clicks"))
        assert low(answer) == T + 1
        for one in (ledger, other, ledgers.make()):
            app = one.app("clicks")
            assert app is not None
            hosts = app.operators["source"].reporters["query"].hosts
            progress = dict(zip(hosts.names, hosts.progress.tolist(), strict=True))
            assert (progress["h1"], progress["h2"]) == (T + 2, T + 40)
        # From here on it only rises.
        tell_together(ledger, report_of("query", source({"h1": T + 1}), app="clicks"))
        app = ledgers.make().app("clicks")
        assert app is not None
        assert T + 2 in app.operators["source"].reporters["query"].hosts.progress.tolist()
