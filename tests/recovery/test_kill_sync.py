"""kill -9 of the synced join, at random moments: each left row comes out once, with its right row.

`TAILRACE_KILLS` sets the number of kills, one by default.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from killing import LOCAL, SEED, committed_files, kill_count, run_to_the_end
from sync_worker import EXACTLY_ONE

from synced import Row, write

if TYPE_CHECKING:
    from places import Place

pytestmark = pytest.mark.campaign

_WORKER = Path(__file__).with_name("sync_worker.py")
_FILES_PER_KILL = 6
_ROWS_PER_FILE = 30
_PARTITIONS = 3
# In seconds: event time of a file; how far rows jump back; how long after its left row a right one is made.
_FILE, _JUMP, _DISTANCE, _DELAY, _WINDOW = 3, 2, 2, 4, 20
# Files by which the last right partition is behind.
_LAG = 4


def _make(root: Path, files: int, rng: random.Random, *, one_to_one: bool) -> Counter[tuple[Any, ...]]:
    """Writes both sides; returns what comes out of them."""
    arrivals: dict[str, dict[int, list[Row]]] = {"left": {}, "right": {}}

    def arrive(side: str, row: Row, lag: int = 0) -> None:
        assert row.second is not None
        at = max(0, (row.second + rng.randrange(_JUMP + 1)) // _FILE + lag)
        if at < files:
            arrivals[side].setdefault(at, []).append(row)

    # In a folder, a partition counts when a row of it has been read.
    arrive("right", Row(-(10**6), _PARTITIONS - 1, 0), -1)
    for i in range(files * _ROWS_PER_FILE):
        second = i * _FILE // _ROWS_PER_FILE
        arrive("left", Row(i, rng.randrange(_PARTITIONS), second))
        if rng.random() < 0.8:
            partition = rng.randrange(_PARTITIONS)
            made = second + rng.randrange(_DISTANCE + 1)
            # Some have an id that no left row has.
            row = Row(i if rng.random() < 0.9 else -i - 1, partition, made)
            arrive("right", row, _LAG if partition == _PARTITIONS - 1 else 0)
    for side, by_file in arrivals.items():
        (root / side).mkdir()
        for number in range(files):
            write(root / side, number, by_file.get(number, []))
    return _expected(arrivals, one_to_one=one_to_one)


def _expected(arrivals: dict[str, dict[int, list[Row]]], *, one_to_one: bool) -> Counter[tuple[Any, ...]]:
    left, right = ([row for rows in by_file.values() for row in rows] for by_file in arrivals.values())

    def low(rows: list[Row]) -> int:
        latest: dict[int, int] = {}
        for row in rows:
            assert row.second is not None
            latest[row.partition] = max(latest.get(row.partition, 0), row.second)
        return min(latest.values())

    release, left_low = low(right) - _DELAY, low(left)
    matches = {row.id: row.second for row in right}
    expected: Counter[tuple[Any, ...]] = Counter()
    for row in left:
        assert row.second is not None
        if row.second < release or (one_to_one and row.id in matches):
            expected[row.id, row.second, matches.get(row.id)] += 1
    joined = {row.id for row in left}
    over = min(release, left_low) - min(_DELAY, _WINDOW) - _WINDOW
    for row in right:
        assert row.second is not None
        if row.id not in joined and row.second < over:
            expected[row.id, None, row.second] += 1
    return expected


def _seconds(column: pa.ChunkedArray[Any]) -> list[int | None]:
    noon = 1767268800  # as `streams.NOON`
    return [None if value is None else round(value.timestamp()) - noon for value in column.to_pylist()]


def campaign(root: Path, kills: int, place: Place, *, one_to_one: bool = False) -> None:
    rng = random.Random(SEED)
    if one_to_one:
        (root / EXACTLY_ONE).touch()
    expected = _make(root, max(18, kills * _FILES_PER_KILL), rng, one_to_one=one_to_one)
    assert sum(1 for _, left, _ in expected if left is None) > 0
    run_to_the_end(_WORKER, root, kills, rng, place=place)
    found: Counter[tuple[Any, ...]] = Counter()
    for path in committed_files(root):
        table = pq.read_table(path)
        times = (_seconds(table[name]) for name in ("created", "created_right"))
        found.update(zip(table["id"].to_pylist(), *times, strict=True))
    assert found == expected


@pytest.mark.parametrize("one_to_one", [False, True])
def test_each_left_row_comes_out_once_with_its_right_row(tmp_path: Path, one_to_one: bool) -> None:
    campaign(tmp_path, kill_count(1), LOCAL, one_to_one=one_to_one)
