"""A random forest as the benchmark of recursion reads it, and its descendants counted plainly."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pathlib import Path

DEEPEST = 30
SCHEMA = "node long, parent long"


def make(root: Path, nodes: int, batch: int) -> int:
    """Writes the forest as a table and as a stream; returns how many counts there are to be made."""
    rng = random.Random(7)  # noqa: S311  test data, no secrets
    depth, edges, total = [0, 0], [], 0
    for node in range(2, nodes + 2):
        parent = rng.randrange(1, node)
        while depth[parent] == DEEPEST:
            parent = rng.randrange(1, node)
        depth.append(depth[parent] + 1)
        total += depth[node]
        edges.append((node, parent))
    rng.shuffle(edges)
    for name, size in (("parents", nodes), ("nodes", batch)):
        (root / name).mkdir()
        for i in range(0, nodes, size):
            table = pa.table(list(zip(*edges[i : i + size], strict=True)), ["node", "parent"])
            path = root / name / f"{i:09d}.parquet"
            pq.write_table(table, path)
            os.utime(path, (1_600_000_000 + i, 1_600_000_000 + i))
    return total


def edges(root: Path) -> pa.Table:
    """The nodes and their parents, in the order of arrival."""
    return pa.concat_tables(pq.read_table(path) for path in sorted((root / "nodes").iterdir()))


def descendants(root: Path) -> dict[int, int]:
    """How many there are below each node that has any: found by climbing from every node."""
    columns = edges(root).to_pydict()
    tree = dict(zip(columns["node"], columns["parent"], strict=True))
    found: dict[int, int] = {}
    for parent in tree.values():
        at: int | None = parent
        while at is not None:
            found[at] = found.get(at, 0) + 1
            at = tree.get(at)
    return found
