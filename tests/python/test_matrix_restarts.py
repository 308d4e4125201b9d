"""Another value of an option at a restart: accepted or refused, as `matrix/restarts.py` says of each option.

Every run takes some restarts, by a seed that each failure names. `TAILRACE_SEED` sets another one, and
`TAILRACE_MATRIX=all` takes all of them; `TAILRACE_MATRIX=join-left` those of an entry.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from matrix.actions import condition_of
from matrix.entries import AT_SERVER
from matrix.restarts import INCOMPATIBLE, RESTARTS, Restart
from matrix.rows import Rows
from matrix.runs import Baselines, Output, Run
from tailrace._bridge import calls
from watermark_servers import running

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

_SEED = int(os.environ.get("TAILRACE_SEED") or random.randrange(10**6))
_AT_SERVER = {entry.name for entry in AT_SERVER}
_OF_ALL = 4


def _chosen() -> list[Restart]:
    asked = os.environ.get("TAILRACE_MATRIX")
    if asked is None:
        return random.Random(_SEED).sample(RESTARTS, _OF_ALL)
    names = asked.split(",")
    return [one for one in RESTARTS if asked == "all" or {one.entry, one.name} & {*names}]


@pytest.mark.slow
@pytest.mark.parametrize("restart", _chosen(), ids=lambda restart: restart.name)
def test_a_restart_with_another_option(spark: SparkSession, tmp_path: Path, restart: Restart) -> None:
    print(f"TAILRACE_SEED={_SEED}")
    if restart.entry in _AT_SERVER:
        with running(f"sqlite:///{tmp_path / 'w.db'}") as server:
            _restart(spark, tmp_path, restart, server.url)
    else:
        _restart(spark, tmp_path, restart, None)


def _restart(spark: SparkSession, tmp_path: Path, restart: Restart, server: str | None) -> None:
    with Run(spark, tmp_path / "run", restart.before(), Rows(_SEED), server=server) as run:
        run.start()
        run.first()
        run.taken()
        run.stop()
        run.entry = restart.after()
        refusal = _resume(run)
        refused = None if refusal is None else condition_of(refusal)
        assert refused == restart.refused
        if refused == INCOMPATIBLE:
            names = [restart.told_as] if restart.told_as else restart.options
            assert any(f"`{name}`" in str(refusal) for name in names), f"{refusal} names none of {names}"
        if refused is None and restart.compares:
            baselines = Baselines(spark, tmp_path, _SEED)
            _compare(run, *(baselines.of(entry) for entry in (restart.before(), restart.after())))


def _resume(run: Run) -> Exception | None:
    """Runs it to its end. Returns the error of Tailrace's that refuses it, if one does."""
    try:
        run.start()
        run.rest()
    except calls.spark_errors(run.spark) as error:
        if condition_of(error) is None:
            raise
        return error
    return None


def _compare(run: Run, former: Output, new: Output) -> None:
    """Rows that both queries have come out; each row that comes out is one of theirs."""
    found, one, other = (Counter(rows) for rows in (run.taken(), former.rest, new.rest))
    assert found
    lost, foreign = (one & other) - found, found - (one | other)
    assert not lost, f"{lost.total()} rows don't come out: {list(lost)[:4]}"
    assert not foreign, f"{foreign.total()} rows are of neither query: {list(foreign)[:4]}"
