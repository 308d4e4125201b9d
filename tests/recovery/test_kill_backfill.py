"""kill -9 of a query that begins with tables and resumes with folders; then the output is the oracle's.

The kills are in history, at the hand-over and in the live query. `TAILRACE_KILLS` sets their number, two by
default.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from backfill_worker import STEP
from killing import LOCAL, SEED, committed_files, kill_count, run_to_the_end

from arrivals import arrive, held
from oracles import JoinOracle
from streams import Row, arrow

if TYPE_CHECKING:
    from places import Place

pytestmark = pytest.mark.campaign

_WORKER = Path(__file__).with_name("backfill_worker.py")
_STEPS_PER_KILL = 8


def _make(root: Path, steps: int, rng: random.Random) -> dict[int, list[int]]:
    """Writes tables of the first half of the rows, and files of the others; returns the oracle's groups."""
    until = steps // 2 * STEP
    oracle = JoinOracle(before=5, after=30, delay=10)
    expected: dict[int, list[int]] = {}
    tables: dict[str, list[Row]] = {"left": [], "right": []}
    number = 0
    for i in range(steps + 1):
        sides: dict[str, list[Row]] = {}
        for side in tables:
            rows = []
            for _ in range(60):
                number += 1
                # At most 9 seconds late, with a delay of 10: no row is behind the watermark.
                second = i * STEP + rng.randrange(STEP) - rng.randrange(10)
                rows.append(Row(number, rng.randrange(12), second))
            sides[side] = rows if i < steps else [Row(10**6, 99, i * STEP + 1000)]
            # The tables have rows of the live streams, too, and the folders rows of history.
            if i <= steps // 2 + 1:
                tables[side] += rows
            if i >= steps // 2 - 1:
                arrive((root if i < steps else held(root)) / side, i, arrow(sides[side]))
        groups, _ = oracle.step(sides["left"], sides["right"])
        expected.update(groups)
    assert not oracle.late
    for side, table in tables.items():
        folder = root / f"{side}-table"
        folder.mkdir()
        pq.write_table(arrow(table), folder / "all.parquet")
    (root / "until").write_text(str(until))
    return expected


def campaign(root: Path, kills: int, place: Place) -> None:
    rng = random.Random(SEED)
    expected = _make(root, kills * _STEPS_PER_KILL, rng)
    run_to_the_end(_WORKER, root, kills, rng, place=place)
    tables = [pq.read_table(path, columns=["l_id", "labels"]) for path in committed_files(root)]
    rows = pa.concat_tables(tables).to_pylist()
    got = [(row["l_id"], sorted(label["r_id"] for label in row["labels"])) for row in rows]
    assert len(got) == len({left for left, _ in got}), "a left row came out twice"
    assert dict(got) == {left: sorted(group) for left, group in expected.items()}


def test_output_after_kills_equals_the_oracle(tmp_path: Path) -> None:
    campaign(tmp_path, kill_count(2), LOCAL)
