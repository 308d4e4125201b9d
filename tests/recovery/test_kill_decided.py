"""kill -9 at random moments of joins whose rows leave as soon as it is decided what they match."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import joins
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from killing import LOCAL, SEED, committed_files, kill_count, run_to_the_end

from arrivals import arrive, held
from oracles import JoinOracle
from streams import Row, arrow

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.campaign

_SLICES_PER_KILL = 10
_PER_SLICE = 60


def _make(root: Path, slices: int, rng: random.Random, key: Callable[[int], int]) -> JoinOracle:
    """Writes the streams in slices, in arrival order. Rows are at most 9 seconds late: none is behind."""
    oracle = JoinOracle(before=0, after=300, delay=10)
    for i in range(slices + 1):
        sides: dict[str, list[Row]] = {}
        for number, side in enumerate(("left", "right")):
            rows = []
            for n in range(i * _PER_SLICE, (i + 1) * _PER_SLICE):
                second = i * 20 + rng.randrange(20) - rng.randrange(10)
                rows.append(Row(2 * n + number, key(n), second))
            sides[side] = rows if i < slices else [Row(10**6, 10**6, i * 20 + 1000)]
            arrive((root if i < slices else held(root)) / side, i, arrow(sides[side]))
        oracle.step(sides["left"], sides["right"])
    assert not oracle.late
    return oracle


def _output(root: Path) -> list[dict[str, Any]]:
    return pa.concat_tables([pq.read_table(path) for path in committed_files(root)]).to_pylist()


def _run(root: Path, rng: random.Random, key: Callable[[int], int], **options: object) -> JoinOracle:
    kills = kill_count(2)
    # Often, so that merges that leave rows out are killed too.
    joins.configure(root, {"spark.tailrace.state.compactionRuns": "2"}, **options)
    oracle = _make(root, kills * _SLICES_PER_KILL, rng, key)
    run_to_the_end(joins.WORKER, root, kills, rng, place=LOCAL)
    return oracle


def _matches(oracle: JoinOracle, left: Row) -> list[Row]:
    return [r for r in oracle.right if r.key == left.key and left.second <= r.second <= left.second + 300]


@pytest.mark.long
def test_first_matches_after_kills_equal_the_oracle(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    options = {"after": "300 seconds", "match": "first", "release": "decided"}
    oracle = _run(tmp_path, rng, lambda _: rng.randrange(200), **options)
    got = [(row["l_id"], [m["r_id"] for m in row["labels"]]) for row in _output(tmp_path)]
    assert len(got) == len({left for left, _ in got}), "a left row came out twice"
    expected = {}
    for left in oracle.left:
        firsts = sorted(_matches(oracle, left), key=lambda r: (r.second, r.id.to_bytes(8, "little")))
        expected[left.id] = [r.id for r in firsts[:1]]
    del expected[10**6]
    assert any(not labels for labels in expected.values())
    assert dict(got) == expected


def test_pairs_after_kills_equal_the_oracle(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    oracle = _run(tmp_path, rng, lambda n: n, after="300 seconds", how="inner", one_to_one=True)
    got = sorted((row["l_id"], row["r_id"]) for row in _output(tmp_path))
    expected = sorted((left.id, right.id) for left in oracle.left for right in _matches(oracle, left))
    assert 0 < len(expected) < len(oracle.left)
    assert got == expected
