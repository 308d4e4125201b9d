"""kill -9 of a label join with an as-of join behind it; then the output is the oracle's, row for row.

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
from oracles import AsOfOracle, looked
from streams import Row, arrow

if TYPE_CHECKING:
    from places import Place

pytestmark = pytest.mark.campaign

_WORKER = Path(__file__).with_name("as_of_worker.py")
_SLICES_PER_KILL = 4


def _make(root: Path, slices: int, rng: random.Random) -> dict[int, int | None]:
    """Writes the streams in slices, in arrival order; returns the right row of each left row."""
    # Values from before the streams: each key has one, and some have an older one, too.
    initial = [Row(10**7 + i, i % 60, -rng.randrange(1, 50)) for i in range(90)]
    pq.write_table(arrow(initial), root / "initial")
    oracle = AsOfOracle(delay=5, max_age=60, watermark_delay=10, right=initial)
    expected: dict[int, int | None] = {}
    number = 0
    for i in range(slices + 1):
        sides: dict[str, list[Row]] = {}
        for side in ("left", "right"):
            rows = []
            for _ in range(60):
                number += 1
                # Of 60 keys some aren't updated for long. At most 9 seconds late, with a delay of 10.
                second = i * 20 + rng.randrange(20) - rng.randrange(10)
                rows.append(Row(number, rng.randrange(60), second))
            sides[side] = rows if i < slices else [Row(10**6, 99, i * 20 + 1000)]
            arrive((root if i < slices else held(root)) / side, i, arrow(sides[side]))
        expected.update(oracle.step(sides["left"], sides["right"]))
    assert not oracle.late
    return expected


def campaign(root: Path, kills: int, place: Place) -> None:
    rng = random.Random(SEED)
    expected = _make(root, kills * _SLICES_PER_KILL, rng)
    run_to_the_end(_WORKER, root, kills, rng, place=place)
    tables = [pq.read_table(path, columns=["l_id", "features"]) for path in committed_files(root)]
    got = looked(pa.concat_tables(tables).to_pylist())
    assert len(got) == len({left for left, _ in got}), "a left row came out twice"
    assert dict(got) == expected
    assert any(right is not None and right >= 10**7 for _, right in got)


def test_output_after_kills_equals_the_oracle(tmp_path: Path) -> None:
    campaign(tmp_path, kill_count(1), LOCAL)
