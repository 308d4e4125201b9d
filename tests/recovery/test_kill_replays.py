"""kill -9 of a pipeline that filters replays, at random moments: each record is in its output once.

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

_WORKER = Path(__file__).with_name("replay_worker.py")
_FILES_PER_KILL = 6
_COLUMNS = ("topic", "partition", "offset", "pid", "source", "position")
_TYPES = (pa.string(), pa.int32(), pa.int64(), pa.int64(), pa.int32(), pa.int64())

Origin = tuple[int, int]


def _make(root: Path, files: int, rng: random.Random) -> set[tuple[int, int, int]]:
    """Writes what an at-least-once pipeline would: origins in order, each falling back now and then."""
    origins: list[Origin] = [(pid, source) for pid in (1, 2, 3) for source in (0, 1)]
    upcoming = dict.fromkeys(origins, 0)
    offsets = {0: 0, 1: 0}
    written: set[tuple[int, int, int]] = set()
    (root / "topic").mkdir()
    for i in range(files):
        rows = []
        for _ in range(80):
            pid, source = rng.choice(origins)
            if rng.random() < 0.1:
                upcoming[pid, source] = max(0, upcoming[pid, source] - rng.randrange(30))
            offsets[source] += 1
            position = upcoming[pid, source]
            upcoming[pid, source] += 1
            rows.append(("t", source, offsets[source], pid, source, position))
            written.add((pid, source, position))
        rng.shuffle(rows)
        columns = {
            name: pa.array([row[c] for row in rows], dtype)
            for c, (name, dtype) in enumerate(zip(_COLUMNS, _TYPES, strict=True))
        }
        arrive(root / "topic", i, pa.table(columns))
    return written


def campaign(root: Path, kills: int, place: Place) -> None:
    rng = random.Random(SEED)
    written = _make(root, kills * _FILES_PER_KILL, rng)
    run_to_the_end(_WORKER, root, kills, rng, place=place)
    found: Counter[tuple[int, int, int]] = Counter()
    for path in committed_files(root):
        for row in pq.read_table(path).to_pylist():
            found[row["pid"], row["source"], row["position"]] += 1
    assert set(found) == written
    assert max(found.values()) == 1


def test_each_record_comes_out_once(tmp_path: Path) -> None:
    campaign(tmp_path, kill_count(1), LOCAL)
