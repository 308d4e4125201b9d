"""kill -9 at random moments of a join whose rows late labels amend: each amendment comes out once."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import joins
import pytest
from killing import LOCAL, SEED, kill_count, run_to_the_end
from late_labels import batches, expected, make, output

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.campaign

_SLICES_PER_KILL = 4
_AMEND_FOR = 40


def test_amendments_after_kills_equal_the_oracle(tmp_path: Path) -> None:
    kills = kill_count(1)
    rng = random.Random(SEED)
    written = make(tmp_path, kills * _SLICES_PER_KILL, rng)
    joins.configure(
        tmp_path,
        joins.KEEPS_LOGS,
        before="5 seconds",
        after="20 seconds",
        amend_for="40 seconds",
        release_every="batch",
    )
    run_to_the_end(joins.WORKER, tmp_path, kills, rng, place=LOCAL)
    out, waiting = expected(written, batches(tmp_path), _AMEND_FOR)
    assert {left.id for left in waiting} == {10**6}
    assert sum(n for (*_, mark), n in out.items() if mark == "amended") > 0
    assert output(tmp_path) == out
