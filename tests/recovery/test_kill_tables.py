"""kill -9 of a query that writes a join into a table of Delta or Iceberg: each row is there once."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from killing import SEED, kill_count, run_to_the_end

from arrivals import arrive, held
from lakes import LAKES
from streams import Row, arrow

pytestmark = pytest.mark.campaign

_WORKER = Path(__file__).with_name("table_worker.py")
_FILES_PER_KILL = 8
_ROWS = 20
_SECONDS = 10
_LAST = 10**6


def _write(root: Path, files: int, rng: random.Random) -> None:
    for side in ("left", "right"):
        for number in range(files):
            rows = [
                Row(number * _ROWS + n, rng.randrange(8), number * _SECONDS + rng.randrange(_SECONDS))
                for n in range(_ROWS)
            ]
            arrive(root / side, number, arrow(rows))
        # Closes the windows of all others.
        arrive(held(root) / side, files, arrow([Row(_LAST, 99, files * _SECONDS + 1000)]))


@pytest.mark.parametrize("keys", [None, ["l_id"]], ids=["append", "merge"])
@pytest.mark.parametrize("lake", LAKES)
def test_each_row_is_in_the_table_once(tmp_path: Path, lake: str, keys: list[str] | None) -> None:
    kills = kill_count(2)
    rng = random.Random(SEED)
    _write(tmp_path, kills * _FILES_PER_KILL, rng)
    (tmp_path / "table.json").write_text(json.dumps([lake, keys]))
    run_to_the_end(_WORKER, tmp_path, kills, rng)
    found, expected = (json.loads((tmp_path / f"{of}.json").read_text()) for of in ("found", "expected"))
    assert found == [row for row in expected if row[0] != _LAST]
