"""What a decision would do, in words, before anybody confirms it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tailrace.server.consequences import consequence
from tailrace.server.protocol import OverrideRequest
from tailrace.server.reporter import RefusedError
from watermark_ledgers import Ledgers, decide, state, tell
from watermark_servers import SECOND, T, sink, source

if TYPE_CHECKING:
    from tailrace.server.ledger import Ledger


def said(ledger: Ledger, action: str, **fields: object) -> str:
    app = ledger.app("app")
    assert app is not None
    given = {"operator": "source", "name": "dana", "reason": "a test", **fields}
    request = OverrideRequest.model_validate({"action": action, **given})
    return consequence(app, request, ledger.now(), ledger.limits)


@pytest.fixture
def ledger(ledgers: Ledgers) -> Ledger:
    ledger = ledgers.make()
    tell(ledger, "q", source({"a": T - 60 * SECOND, "b": T - SECOND}), sink({"0": T}))
    tell(ledger, "r", sink({"0": T}, name="other"))
    return ledger


def test_an_exclusion_says_where_the_source_stands_without_the_host(ledger: Ledger) -> None:
    text = said(ledger, "exclude", host="a")
    assert "stands at 2025-11-21 04:39:00, and without this one at 2025-11-21 04:39:59" in text
    decide(ledger, "exclude", host="a")
    assert state(ledger).topology[0].output_low_watermark == T - SECOND, "as it was said"
    assert "Nothing changes: 'a' is excluded" in said(ledger, "exclude", host="a")
    assert "'a' counts for 'source' again" in said(ledger, "include", host="a")
    assert "Nothing changes: 'b' isn't excluded" in said(ledger, "include", host="b")


def test_an_advance_and_its_undo_say_what_follows(ledger: Ledger) -> None:
    text = said(ledger, "advance", to=T - 30 * SECOND)
    assert "to 2025-11-21 04:39:30, by 30.0 s, past 1 hosts that haven't been read so far" in text
    assert "is at 2025-11-21 04:39:00 by itself" in said(ledger, "advance", to=T - 90 * SECOND)
    decide(ledger, "advance", to=T - 30 * SECOND, confirm=True)
    text = said(ledger, "undo")
    assert "The advance of 'source' to 2025-11-21 04:39:30 is taken back" in text
    assert "of it and of 2 operators that read from it" in text


def test_removals_and_purges_say_whether_they_can_be_undone(ledger: Ledger) -> None:
    assert "It is back when it is reported again" in said(ledger, "remove", operator="sink")
    assert "All 3 operators of 'app' are removed" in said(ledger, "remove", operator=None)
    assert "is removed from 'other'" in said(ledger, "remove", operator=None, client="r")
    assert "No other query reports 'other': removed too" in said(ledger, "remove", operator=None, client="r")
    purge = said(ledger, "purge", operator="sink")
    assert "'sink' is forgotten for good" in purge
    assert "of it and of no other" in purge
    every = said(ledger, "purge", operator=None)
    assert "can't be undone" in every
    assert "The audit table goes too" in every
    assert "Your name and the reason are kept" in purge


def test_nothing_is_changed_by_asking(ledger: Ledger) -> None:
    before = state(ledger)
    for action, fields in (
        ("exclude", {"host": "a"}),
        ("advance", {"to": T - SECOND}),
        ("remove", {"operator": None}),
        ("purge", {"operator": None}),
    ):
        said(ledger, action, **fields)
    assert state(ledger) == before


@pytest.mark.parametrize(
    ("action", "fields", "refusal"),
    [
        ("exclude", {"host": "nobody"}, "no host 'nobody'"),
        ("exclude", {"host": "a", "operator": "sink"}, "no source"),
        ("advance", {"to": T + 900 * SECOND}, "after now"),
        ("undo", {}, "nothing to undo"),
        ("remove", {"operator": "nothing"}, "no operator"),
        ("remove", {"client": "nobody"}, "no client"),
        ("purge", {"operator": "nothing"}, "no operator"),
    ],
)
def test_what_would_be_refused_is_refused_before(
    ledger: Ledger, action: str, fields: dict[str, object], refusal: str
) -> None:
    with pytest.raises(RefusedError, match=refusal):
        said(ledger, action, **fields)
