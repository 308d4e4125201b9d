"""The matrix's entries with a watermark server: the rows are those of the same query that decides alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from matrix.entries import AT_SERVER
from matrix.pins import SEED
from matrix.rows import Rows, Variant
from matrix.runs import Output, Run, differences
from waiting import wait_for
from watermark_servers import running

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from matrix.shape import Entry

_AT_SERVER = frozenset({"server", "app", "operator", "logs", "token", "upstreams"})
# With a server a watermark moves when the server has answered: a late row may be in time by then.
_VARIANT = Variant(punctual=True)


def _alone(entry: Entry) -> Entry:
    """The same entry without a server."""
    calls = [
        replace(call, options={name: v for name, v in call.options.items() if name not in _AT_SERVER})
        for call in entry.calls
    ]
    return replace(entry, calls=tuple(calls))


@pytest.mark.slow
@pytest.mark.parametrize("restarts", [False, True], ids=["through", "restarted"])
@pytest.mark.parametrize("entry", AT_SERVER, ids=[entry.name for entry in AT_SERVER])
def test_a_server_changes_no_row(
    spark: SparkSession, tmp_path: Path, entry: Entry, *, restarts: bool
) -> None:
    with Run(spark, tmp_path / "alone", _alone(entry), Rows(SEED), variant=_VARIANT) as run:
        expected = Output(run).all
    assert expected
    found: list[str] = []
    with (
        running(f"sqlite:///{tmp_path / 'w.db'}") as server,
        Run(spark, tmp_path / "run", entry, Rows(SEED), variant=_VARIANT, server=server.url) as run,
    ):
        run.start()
        run.first()
        if restarts:
            run.stop()
            run.start()
        run.rest()

        def all_are_out() -> bool:
            run.test.tick()
            run.query.run()
            found.extend(run.taken())
            return len(found) >= len(expected)

        wait_for(all_are_out, f"{len(expected)} rows", 90)
        assert not differences(expected, found), differences(expected, found)
