"""kill -9 at random moments of a join whose rows come out when nothing comes any more."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import joins
import pytest
from killing import LOCAL, SEED, kill_count, run_to_the_end
from late_labels import NONE, arrive_later, batches, expected, output

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.campaign

# A process that is killed before silence has closed a window leaves enough for two such waits.
_SLICES_PER_KILL = 7


@pytest.mark.parametrize("amend_for", [0, pytest.param(40, marks=pytest.mark.long)])
def test_what_silence_lets_out_after_kills_equals_the_oracle(tmp_path: Path, amend_for: int) -> None:
    kills = kill_count(1)
    rng = random.Random(SEED + amend_for)
    written = arrive_later(tmp_path, kills * _SLICES_PER_KILL, rng, starts=kills + 1)
    amends = {"amend_for": f"{amend_for} seconds"} if amend_for else {}
    joins.configure(
        tmp_path,
        joins.KEEPS_LOGS,
        before="5 seconds",
        after="20 seconds",
        release_every="batch",
        idle_timeout="300 milliseconds",
        **amends,
    )
    run_to_the_end(joins.WORKER, tmp_path, kills, rng, place=LOCAL)
    ran = batches(tmp_path)
    out, waiting = expected(written, ran, amend_for)
    assert not waiting
    closings = sum(batch.closed > NONE for batch in ran)
    assert closings > kills
    # Left rows that are late to what has come out, and on time otherwise.
    assert sum(len(rows) for rows in written["left"]) > sum(n for (left, *_), n in out.items() if left)
    assert output(tmp_path) == out
