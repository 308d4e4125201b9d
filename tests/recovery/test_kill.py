"""kill -9 of the whole process at random moments; then the output is the oracle's, row for row.

`TAILRACE_KILLS` sets the number of kills, one by default.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from killing import LOCAL, SEED, committed_files, kill_count, run_to_the_end

from arrivals import arrive, held
from oracles import JoinOracle
from streams import SCHEMA, Row, arrow

if TYPE_CHECKING:
    from places import Place

pytestmark = pytest.mark.campaign

_WORKER = Path(__file__).with_name("worker.py")
_SLICES_PER_KILL = 4


def _make(root: Path, slices: int, rng: random.Random) -> dict[int, list[int]]:
    """Writes the streams in slices, in arrival order; returns the oracle's groups of all closed windows."""
    oracle = JoinOracle(before=5, after=30, delay=10)
    expected: dict[int, list[int]] = {}
    number = 0
    for i in range(slices + 1):
        sides: dict[str, list[Row]] = {}
        for side in ("left", "right"):
            rows = []
            for _ in range(60):
                number += 1
                # At most 9 seconds late, with a delay of 10: no row is behind the watermark.
                rows.append(Row(number, rng.randrange(12), i * 20 + rng.randrange(20) - rng.randrange(10)))
            sides[side] = rows if i < slices else [Row(10**6, 99, i * 20 + 1000)]
            arrive((root if i < slices else held(root)) / side, i, arrow(sides[side]))
        groups, _ = oracle.step(sides["left"], sides["right"])
        expected.update(groups)
    assert not oracle.late
    return expected


def _output(root: Path) -> list[tuple[int, list[int]]]:
    tables = [pq.read_table(path, columns=["l_id", "labels"]) for path in committed_files(root)]
    rows = pa.concat_tables(tables).to_pylist()
    return [(r["l_id"], [m["r_id"] for m in r["labels"]]) for r in rows]


def _is_in_order(group: list[int], expected: list[int]) -> bool:
    # Equal times are ordered by content, which the oracle doesn't know.
    return sorted(group) == sorted(expected)


def campaign(root: Path, kills: int, place: Place) -> None:
    assert [f.name for f in SCHEMA] == ["id", "key", "ts", "note"]
    rng = random.Random(SEED)
    expected = _make(root, kills * _SLICES_PER_KILL, rng)
    run_to_the_end(_WORKER, root, kills, rng, place=place)
    got = _output(root)
    assert len(got) == len({left for left, _ in got}), "a left row came out twice"
    assert {left for left, _ in got} == set(expected)
    wrong = {left for left, group in got if not _is_in_order(group, expected[left])}
    assert not wrong


def test_output_after_kills_equals_the_oracle(tmp_path: Path) -> None:
    campaign(tmp_path, kill_count(1), LOCAL)
