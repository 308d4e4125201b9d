"""kill -9 of a query whose watermark waits for hosts: no row is ever late, none counts twice.

`TAILRACE_KILLS` sets the number of kills, one by default.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from killing import LOCAL, SEED, committed_files, kill_count, run_to_the_end

from arrivals import arrive

if TYPE_CHECKING:
    from places import Place

pytestmark = pytest.mark.campaign

_WORKER = Path(__file__).with_name("watermark_worker.py")
_FILES_PER_KILL = 6
_HOSTS = 12
_START = 1_700_000_000
_SECOND = 1_000_000


def _write(root: Path, number: int, rows: list[tuple[str, int]]) -> None:
    columns = {
        "host": pa.array([host for host, _ in rows], pa.string()),
        "at": pa.array([(_START + second) * _SECOND for _, second in rows], pa.timestamp("us", "UTC")),
    }
    arrive(root / "logs", number, pa.table(columns))


def _make(root: Path, files: int, rng: random.Random) -> Counter[int]:
    """Each host's log in order, and few hosts in a file: a table that is lost would tell."""
    (root / "logs").mkdir()
    positions = dict.fromkeys((f"h{i}" for i in range(_HOSTS)), 0)
    _write(root, 0, [(host, 0) for host in positions])
    truth: Counter[int] = Counter({_START: _HOSTS})
    for number in range(1, files):
        rows = []
        for host in rng.sample(sorted(positions), 3):
            # The first one is as slow as it gets.
            step = 2 if host == "h0" else 12
            for _ in range(5):
                positions[host] += rng.randrange(step)
                rows.append((host, positions[host]))
                truth[_START + positions[host] // 10 * 10] += 1
        _write(root, number, rows)
    end = max(positions.values()) // 10 * 10 + 1000
    _write(root, files, [(host, end) for host in positions])
    return truth


def campaign(root: Path, kills: int, place: Place) -> None:
    rng = random.Random(SEED)
    truth = _make(root, kills * _FILES_PER_KILL, rng)
    run_to_the_end(_WORKER, root, kills, rng, place=place)
    found: Counter[int] = Counter()
    windows: Counter[int] = Counter()
    for path in committed_files(root):
        for row in pq.read_table(path).to_pylist():
            found[row["start"]] += row["count"]
            windows[row["start"]] += 1
    assert found == truth
    assert max(windows.values()) == 1


def test_no_row_is_late(tmp_path: Path) -> None:
    campaign(tmp_path, kill_count(1), LOCAL)
