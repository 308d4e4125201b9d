"""Hosts as readers see them: what each one's state says, and which ones a search finds."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, get_args

from starlette.testclient import TestClient

from tailrace.server.answers import HostPage, Standing
from tailrace.server.hostpages import Asked, host_page
from tailrace.server.run import build
from watermark_ledgers import Ledgers, decide, state, tell
from watermark_servers import SECOND, T, report, sink, source

if TYPE_CHECKING:
    from pathlib import Path

    from tailrace.server.ledger import Ledger


def page(ledger: Ledger, **asked: Any) -> HostPage:  # noqa: ANN401  the fields of Asked
    app = ledger.app("app")
    assert app is not None
    return host_page(app, Asked(**{"limit": 1_000, **asked}), ledger.clock(), ledger.limits)


def standings(ledger: Ledger) -> dict[str, str]:
    return {host.host: host.state for host in page(ledger).hosts}


def test_hosts_that_are_level_hold_nothing(ledgers: Ledgers) -> None:
    ledger = ledgers.make()
    tell(ledger, "q", source({"a": T, "b": T}))
    assert state(ledger).held_by == ["source"]
    assert standings(ledger) == {"a": "passed", "b": "passed"}
    tell(ledger, "q", source({"b": T + 1}))
    assert standings(ledger) == {"a": "holds", "b": "passed"}


def test_a_host_holds_nothing_while_another_operator_does(ledgers: Ledgers) -> None:
    ledger = ledgers.make()
    tell(ledger, "q", source({"a": T, "b": T + 5}), sink({"0": T - 1}))
    assert state(ledger).held_by == ["sink"]
    assert standings(ledger) == {"a": "passed", "b": "passed"}
    tell(ledger, "q", sink({"0": T + 9}))
    assert standings(ledger) == {"a": "holds", "b": "passed"}


def test_a_host_holds_nothing_while_its_sources_stamps_do(ledgers: Ledgers) -> None:
    ledger = ledgers.make()
    tell(ledger, "q", source({"a": T, "b": T + 5}, input_low_watermark=T - 9))
    assert state(ledger).held_by == ["source"]
    assert standings(ledger) == {"a": "passed", "b": "passed"}


def test_only_excluded_hosts_are_further(ledgers: Ledgers) -> None:
    ledger = ledgers.make()
    tell(ledger, "q", source({"a": T, "b": T + 5}))
    decide(ledger, "exclude", host="b")
    assert standings(ledger) == {"a": "passed", "b": "excluded"}


def test_a_host_behind_an_advance_is_counted_behind_and_says_so(ledgers: Ledgers) -> None:
    ledger = ledgers.make()
    tell(ledger, "q", source({"a": T - 9, "b": T - 8, "c": T}, completeness="0.5"))
    decide(ledger, "advance", to=T - 5, confirm=True)
    assert standings(ledger) == {"a": "behind", "b": "holds", "c": "passed"}
    assert state(ledger).topology[0].hosts_behind == 2


def test_backlog_and_skew_are_of_the_hosts_that_count(ledgers: Ledgers) -> None:
    ledger = ledgers.make()
    tell(ledger, "q", source({"a": T - 9 * SECOND, "b": T - 2 * SECOND, "c": T - 90 * SECOND}), sink({}))
    decide(ledger, "exclude", host="c")
    first, last = state(ledger).topology
    assert (first.backlog, first.skew) == (9 * SECOND, 7 * SECOND)
    assert (last.backlog, last.skew) == (None, None)
    tell(ledger, "q", source({}, roster=["a", "b", "never"]))
    assert (state(ledger).topology[0].backlog, state(ledger).topology[0].skew) == (None, None)


def test_a_search_finds_what_all_hosts_say(ledgers: Ledgers) -> None:
    ledger = ledgers.make()
    chance = random.Random(5)
    names = [f"{'Web' if n % 3 else 'db'}-{n}" for n in range(60)]
    progress = {name: T + chance.randrange(9) for name in names[:50]}
    tell(ledger, "q", source({**progress, "stranger": T}, roster=names, completeness="0.8"))
    tell(ledger, "q", source({"other-web": T, "far": T + 1}, name="other", idle_after=SECOND))
    decide(ledger, "exclude", host=names[7])
    for step in range(3):
        ledgers.clock.wait(SECOND)
        tell(ledger, "q", source({"far": T + 2 + step}, name="other", idle_after=SECOND))
    every = page(ledger).hosts
    assert len(every) == 63
    assert {host.state for host in every} >= {"behind", "passed", "excluded", "idle", "not in roster"}
    for part in ("", "web", "B-1", "nothing"):
        for wanted in (None, *get_args(Standing)):
            expected = [h for h in every if part.lower() in h.host.lower() and wanted in {None, h.state}]
            found = page(ledger, search=part, state=wanted)
            assert (found.hosts, found.total) == (expected, len(expected)), (part, wanted)
            some = page(ledger, search=part, state=wanted, limit=3, offset=2)
            assert (some.hosts, some.total) == (expected[2:5], len(expected)), (part, wanted)


def test_the_route_searches_and_refuses_unknown_states(tmp_path: Path) -> None:
    with TestClient(build(f"sqlite:///{tmp_path / 'w.db'}", None), base_url="http://127.0.0.1") as client:
        body = report(source({"web-1": T, "web-2": T + 5, "db-1": T + 5}))
        assert client.post("/v1/apps/app/reports", json=body).status_code == 200
        found = client.get("/v1/apps/app/hosts?search=WEB&state=passed").json()
        assert (found["total"], [host["host"] for host in found["hosts"]]) == (1, ["web-2"])
        assert client.get("/v1/apps/app/hosts?state=").status_code == 422
        assert client.get(f"/v1/apps/app/hosts?search={'x' * 201}").status_code == 422
