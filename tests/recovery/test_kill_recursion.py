"""kill -9 of a recursion that goes round by its log, at random moments: each result is in its output once.

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
from trees import ancestors

if TYPE_CHECKING:
    from places import Place

pytestmark = pytest.mark.campaign

_WORKER = Path(__file__).with_name("recursion_worker.py")
_FILES_PER_KILL = 5
_NODES_PER_FILE = 6


def _make(root: Path, files: int, rng: random.Random) -> list[tuple[int, int]]:
    """A tree of which each file is a part, its nodes in any order; some wait for parents in later files."""
    edges = [(n, rng.randrange(max(1, n - 8), n)) for n in range(2, files * _NODES_PER_FILE + 2)]
    order = sorted(edges, key=lambda edge: edge[0] + rng.uniform(0, 3 * _NODES_PER_FILE))
    (root / "nodes").mkdir()
    for i in range(files):
        part = order[i * _NODES_PER_FILE : (i + 1) * _NODES_PER_FILE]
        arrive(root / "nodes", i, pa.table(list(zip(*part, strict=True)), ["node", "parent"]))
    return edges


def campaign(root: Path, kills: int, place: Place) -> None:
    rng = random.Random(SEED)
    edges = _make(root, kills * _FILES_PER_KILL, rng)
    run_to_the_end(_WORKER, root, kills, rng, place=place)
    found: Counter[tuple[int, int]] = Counter()
    for path in committed_files(root):
        for row in pq.read_table(path).to_pylist():
            found[row["leaf"], row["node"]] += 1
    assert found == Counter(ancestors(edges))
    batches = [p for p in place.see(root, "checkpoint/tailrace-recursion").glob("*/*") if p.name.isdigit()]
    # The input of the last batch stays, for another run of it.
    last = max(batches, key=lambda p: int(p.name))
    assert list(last.glob("*.none")), "the last batch has said nothing"
    assert list(last.glob("*.fed")) == [], "rows are left on their way"
    # The workers' sessions retain three micro-batches, and the oldest of these has read one more.
    assert len(batches) <= 4, "the log isn't deleted"


def test_each_result_comes_out_once(tmp_path: Path) -> None:
    campaign(tmp_path, kill_count(1), LOCAL)
