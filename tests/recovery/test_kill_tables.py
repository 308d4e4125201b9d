"""kill -9 of queries that write a join or windows into a table of Delta or Iceberg: each row lands once."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from pathlib import Path

import pytest
from killing import SEED, kill_count, run_to_the_end
from test_kill_windows import FILES_PER_KILL, Logs, landed_ids

from arrivals import arrive, held
from lakes import LAKES
from streams import Row, arrow

pytestmark = pytest.mark.campaign

_WORKER = Path(__file__).with_name("table_worker.py")
_WINDOWS_WORKER = Path(__file__).with_name("windows_worker.py")
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


@pytest.mark.parametrize("lake", LAKES)
def test_each_complete_window_is_in_the_table_once(tmp_path: Path, lake: str) -> None:
    kills = kill_count(2)
    rng = random.Random(SEED)
    logs = Logs(tmp_path, rng)
    logs.write(kills * FILES_PER_KILL)
    (tmp_path / "lake").write_text(lake)
    run_to_the_end(_WINDOWS_WORKER, tmp_path, kills, rng)
    ids, reports = json.loads((tmp_path / "found.json").read_text())
    found: dict[str, list[int]] = defaultdict(list)
    for name, id_ in ids:
        found[name].append(id_)
    on_time = {name: sorted(of) for name, of in logs.truth.items() if not name.startswith("_late/")}
    # The window of the last rows is open.
    last = max(on_time)
    del on_time[last]
    assert {name: sorted(of) for name, of in found.items()} == on_time
    assert {name: rows for name, rows in reports if rows} == {name: len(of) for name, of in on_time.items()}
    assert len({name for name, _ in reports}) == len(reports), "a window has two commits"
    late = [folder for folder in logs.truth if folder.startswith("_late/")]
    assert {folder: sorted(landed_ids(tmp_path / "out" / folder)) for folder in late} == {
        folder: sorted(logs.truth[folder]) for folder in late
    }
    files = list((tmp_path / "out").glob("window_start=*/*.parquet"))
    assert {path.parent.name for path in files} == {last}
