"""A server goes on from the database that a release has left, to the state that it has without an upgrade.

Before a release:

    cd tests/python && python test_watermark_server_golden.py ../golden/watermark-server/RELEASE.sql
"""

from __future__ import annotations

import sqlite3
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tailrace.server.protocol import Report
from watermark_ledgers import MINUTE, Ledgers, decide, state, tell
from watermark_servers import SECOND, T, sink, source

if TYPE_CHECKING:
    from tailrace.server.answers import AppState
    from tailrace.server.ledger import Ledger

GOLDEN = Path(__file__).parents[1] / "golden" / "watermark-server"
# Format 3, whose reports had no labels.
_WITHOUT_LABELS = {"0.1.0"}
# Format 4, whose reports had no times before 1970, no names of queries and no micro-batches.
_WITHOUT_BATCHES = {*_WITHOUT_LABELS, "0.1.0-2"}


def before(ledgers: Ledgers, ledger: Ledger, *, labelled: bool, counted: bool) -> None:
    """The reports that the release got: they can't change any more."""
    label = {"label": "source views (files)"} if labelled else {}
    hosts = {f"host-{i}": T + i * SECOND for i in range(5)}
    tell(
        ledger,
        "one",
        source(hosts, roster=[*hosts, "late", "lost"], completeness="0.8", reads=["topic:clicks"]),
    )
    tell(ledger, "one", sink({"0": T, "1": T + SECOND}, key_groups=2))
    tell(
        ledger,
        "two",
        source({"b-1": T + MINUTE}, name="views", idle_after=MINUTE, reads=["topic:views"], **label),
    )
    ledgers.clock.wait(10 * SECOND)
    tell(ledger, "two", source({"b-1": T + 2 * MINUTE, "b-2": T}, name="views", idle_after=MINUTE))
    tell(ledger, "gone", sink({"0": T + MINUTE}, name="old", upstreams=["views"]), leaving=True)
    if counted:
        archive = source({"x": -MINUTE, "y": -SECOND}, name="archive", roster=["x", "y", "z"], logs="web")
        _count(ledger, 7, archive, sink({"0": -MINUTE}, name="nights", upstreams=["archive"], key_groups=1))
    decide(ledger, "exclude", host="lost")
    decide(ledger, "advance", operator="views", to=T + 30 * SECOND, confirm=True)


def _count(ledger: Ledger, batches: int, *operators: dict[str, Any], run: str = "1") -> None:
    body = {"client": "three", "run": run, "version": 2, "query": "nightly", "batches": batches}
    (answer,) = ledger.report([("app", Report.model_validate({**body, "operators": list(operators)}))])
    assert not isinstance(answer, Exception), answer


def after(ledgers: Ledgers, ledger: Ledger, *, counted: bool) -> AppState:
    """The reports after the upgrade."""
    ledgers.clock.wait(SECOND)
    tell(ledger, "one", source({"late": T + SECOND, "host-0": T + MINUTE}, completeness="0.8"))
    tell(ledger, "one", sink({"0": T + 3 * SECOND}, key_groups=2, label="sink (Kafka)"))
    tell(ledger, "two", source({"b-2": T + MINUTE}, name="views", idle_after=MINUTE), run="2")
    if counted:
        _count(
            ledger, 3, source({"x": -2 * MINUTE}, name="archive", roster=["x", "y", "z"], logs="web"), run="2"
        )
    decide(ledger, "include", host="lost")
    return state(ledger)


@pytest.mark.parametrize("release", sorted(GOLDEN.glob("*.sql")), ids=lambda file: str(file.stem))
def test_a_database_of_an_earlier_release_goes_on(release: Path, tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "old.db")
    connection.executescript(release.read_text())
    connection.close()
    with Ledgers(f"sqlite:///{tmp_path / 'old.db'}") as upgraded, Ledgers(_at(tmp_path)) as fresh:
        upgraded.clock.wait(10 * SECOND)
        counted = release.stem not in _WITHOUT_BATCHES
        found = after(upgraded, upgraded.make(), counted=counted)
        ledger = fresh.make()
        before(fresh, ledger, labelled=release.stem not in _WITHOUT_LABELS, counted=counted)
        expected = after(fresh, ledger, counted=counted)
    assert found.model_dump() == expected.model_dump()
    # That of format 5 has a query that has gone back, and a sink that waits for it.
    assert (expected.global_low_watermark is None) == counted
    known = {operator.operator: operator.label for operator in found.topology}
    assert known["sink"] == "sink (Kafka)", "what is reported after the upgrade"
    assert (known["views"] is None) == (release.stem in _WITHOUT_LABELS)


def test_each_release_has_a_golden_database() -> None:
    assert list(GOLDEN.glob("*.sql"))


def _at(directory: Path) -> str:
    return f"sqlite:///{directory / 'w.db'}"


def make(release: Path) -> None:
    """Leaves the database of this release, as statements."""
    with tempfile.TemporaryDirectory() as name, Ledgers(_at(Path(name))) as ledgers:
        before(ledgers, ledgers.make(), labelled=True, counted=True)
        with sqlite3.connect(Path(name) / "w.db") as connection:
            release.write_text("\n".join(connection.iterdump()) + "\n")


if __name__ == "__main__":
    make(Path(sys.argv[1]))
