"""Times before 1970: in reports, in the database and for people."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any

import pytest

import watermark_format_4
from tailrace.server.ledger import HISTORY_KEPT
from tailrace.server.protocol import Report
from tailrace.server.times import EARLIEST, shown_time
from watermark_ledgers import Ledgers, decide, low, state
from watermark_servers import SECOND, sink, source

if TYPE_CHECKING:
    from pathlib import Path

    from tailrace.server.answers import ReportAnswer
    from tailrace.server.ledger import Ledger

OF_1965 = -157_766_400 * SECOND
HOUR = 3_600 * SECOND
_TOLD_ZERO = """UPDATE operator SET told_output = 0, told_input = 0;
UPDATE reporter SET told_output = 0, told_input = 0;
UPDATE app SET told = 0;
UPDATE client SET told = 0;"""


def tell(ledger: Ledger, *operators: dict[str, Any], version: int = 2, **fields: Any) -> ReportAnswer:  # noqa: ANN401
    body = {"client": "q", "run": "1", "version": version, "operators": list(operators), **fields}
    (answer,) = ledger.report([("app", Report.model_validate(body))])
    if isinstance(answer, Exception):
        raise answer
    return answer


@pytest.mark.parametrize("at", [OF_1965, -HOUR, -1, 0, 1])
def test_low_watermarks_around_1970(ledgers: Ledgers, at: int) -> None:
    ledger = ledgers.make()
    answer = tell(ledger, source({"h1": at}, roster=["h1", "h2"]), sink({"0": EARLIEST}, key_groups=1))
    assert (low(answer), low(answer, "sink"), answer.global_low_watermark) == (None, None, None)
    tell(ledger, source({"h2": at - HOUR}))
    answer = tell(ledgers.make(), source({"h2": at + HOUR}), sink({"0": at}, key_groups=1))
    assert (low(answer), low(answer, "sink"), answer.global_low_watermark) == (at, at, at)
    for one in (ledger, ledgers.make()):
        shown = state(one)
        (told,) = (o for o in shown.topology if o.operator == "source")
        assert (shown.global_low_watermark, told.hosts, told.hosts_behind) == (at, 2, 0)
        app = one.app("app")
        assert app is not None
        assert one.records.history(app, 0)[0][-1][2] == at
        assert one.records.recent(app, one.clock() - HISTORY_KEPT, ["", "source"])
    # A late report of less changes nothing; a host never seen is behind all times.
    assert low(tell(ledger, source({"h1": at - HOUR}))) == at
    tell(ledger, source({"h2": at + HOUR}, roster=["h1", "h2", "h3"]))
    assert state(ledger).topology[0].hosts_behind == 1


def test_windows_and_decisions_before_1970(ledgers: Ledgers) -> None:
    ledger = ledgers.make()
    window = {"operator": "sink", "start": OF_1965, "end": OF_1965 + HOUR, "expected": 2, "passed": 1}
    window["missing"] = [{"host": "h2", "progress": OF_1965 - 1}]
    tell(ledger, source({"h1": OF_1965}), sink({"0": OF_1965}, key_groups=1), windows=[window])
    app = ledger.app("app")
    assert app is not None
    ((_, start, end, *_),) = ledger.records.windows(app, None, 9, 0)
    assert (start, end) == (OF_1965, OF_1965 + HOUR)
    decide(ledger, "advance", to=OF_1965 + HOUR, confirm=True)
    assert low(tell(ledger, source({}))) == OF_1965 + HOUR


def test_zero_of_version_1_is_no_low_watermark(ledgers: Ledgers) -> None:
    """Queries of earlier releases sent times before 1970 as 0."""
    ledger = ledgers.make()
    answer = tell(ledger, source({"old": 0, "h": 5}), sink({"0": 0}, key_groups=1), version=1)
    assert (low(answer), low(answer, "sink")) == (None, None)
    assert state(ledgers.make()).topology[0].hosts == 2
    answer = tell(ledgers.make(), source({"old": 7}), sink({"0": 5}, key_groups=1), version=1)
    assert (low(answer), low(answer, "sink")) == (5, 5)


@pytest.mark.parametrize("time", [EARLIEST - 1, 2**53])
def test_times_that_no_number_holds_exactly_are_refused(time: int) -> None:
    for operator in (source({"h": time}), sink({"0": time}), source({f"h{n}": time for n in range(2_000)})):
        with pytest.raises(ValueError, match=r"9007199254740991"):
            Report.model_validate({"client": "q", "version": 2, "operators": [operator]})


def test_a_database_of_format_4_has_signed_times_after_an_upgrade(tmp_path: Path) -> None:
    file = tmp_path / "w.db"
    with Ledgers(f"sqlite:///{file}") as ledgers:
        tell(ledgers.make(), source({"h1": 9, "old": 7}, roster=["h1", "old", "h3"]), sink({"0": 5, "1": 3}))
    with sqlite3.connect(file) as connection:
        watermark_format_4.make(connection)
        connection.execute("UPDATE host SET progress = 0 WHERE name = 'old'")
        connection.execute("UPDATE key_group SET low_watermark = 0 WHERE name = '1'")
        connection.executescript(_TOLD_ZERO)
    with Ledgers(f"sqlite:///{file}") as ledgers:
        ledger = ledgers.make()
        app = ledger.app("app")
        assert app is not None
        hosts = {h.name: h.progress for h in app.operators["source"].hosts().slowest(9)}
        assert hosts == {"h1": 9, "old": EARLIEST, "h3": None}
        (sunk,) = (o for o in state(ledger).topology if o.operator == "sink")
        assert (sunk.output_low_watermark, sunk.input_low_watermark) == (None, None)
        answer = tell(ledger, source({"old": 7, "h3": -5}), sink({"0": 5, "1": 6}))
        assert (low(answer), low(answer, "sink")) == (-5, -5)


def test_times_before_1970_for_people() -> None:
    assert shown_time(OF_1965) == "1965-01-01 00:00:00"
    assert shown_time(-1_000) == "1969-12-31 23:59:59.999"
    assert shown_time(EARLIEST).startswith("1684-")
