"""The cases of the proposal that `recursively` comes from, in its order."""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest

import tailrace
from trees import ANY_OUTPUT_MODE, Trees, ancestors, descendants, forest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Another one makes other trees. `TAILRACE_PERMUTATIONS` sets how many.
SEED = os.environ.get("TAILRACE_SEED", "20261121")

# 7 - 3 - 1, 6 - 3, 5 - 2 - 1, 4 - 2
TREE = [(2, 1), (3, 1), (4, 2), (5, 2), (6, 3), (7, 3)]


def climb(updates: DataFrame, parents: DataFrame) -> DataFrame:
    return updates.join(parents, "node").selectExpr("parent AS node", "n")


def plan(frame: DataFrame) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as text:
        frame.explain()
    return text.getvalue()


def test_processors_wired_in_reverse(trees: Trees) -> None:
    # A retry pipeline: what fails goes back to where it came in, with one attempt less.
    trees.add("jobs", [(1, 3), (2, 0), (3, 1)])
    jobs = trees.stream("jobs").selectExpr("node AS job", "parent AS attempts")
    retried = tailrace.recursively(
        jobs, lambda work: work.where("attempts > 0").selectExpr("job", "attempts - 1 AS attempts")
    )
    rows = trees.run(retried)
    assert sorted(rows) == [(1, 0), (1, 1), (1, 2), (3, 0)]


def test_no_repartition_needed(trees: Trees) -> None:
    trees.add("nodes", TREE[:3], TREE[3:])
    trees.add("parents", TREE)
    parents = trees.table("parents")
    updates = trees.stream("nodes").selectExpr("node AS leaf", "parent AS node")
    up = tailrace.recursively(
        updates, lambda u: u.join(parents, "node").selectExpr("leaf", "parent AS node"), depth_column="hop"
    )
    rows = trees.run(up)
    assert sorted(rows) == [(4, 1, 1), (5, 1, 1), (6, 1, 1), (7, 1, 1)]
    # Each batch makes all its hops, in its tasks: no exchange, no job a hop.
    assert [c["mode"] for c in rows.counts()] == ["fixpoint", "fixpoint"]
    assert [(c["rows"], c["deepest"]) for c in rows.counts()] == [(1, 1), (3, 1)]
    assert "Exchange" not in plan(up)


def test_repartition_by_the_other_side_of_a_join_within_op(trees: Trees) -> None:
    # The join of two streams brings its own exchange; the recursion adds none.
    trees.add("nodes", TREE[3:], TREE[:3])
    nodes = trees.stream("nodes")
    updates = nodes.selectExpr("parent AS node", "node AS n")
    up = tailrace.recursively(updates, lambda u: climb(u, trees.stream("nodes")))
    assert plan(up).count("Exchange hashpartitioning") == 2
    rows = trees.run(up)
    assert sorted(rows) == [(1, 4), (1, 5), (1, 6), (1, 7)]
    assert {c["mode"] for c in rows.counts()} == {"feedback"}
    assert trees.log() == 0


def test_repartition_by_recursively_itself(trees: Trees) -> None:
    # Nothing in op asks for it, and a row is in another partition after each hop.
    trees.add("nodes", TREE[:3], TREE[3:])
    trees.add("parents", TREE)
    parents = trees.table("parents").hint("shuffle_hash")
    updates = trees.stream("nodes").selectExpr("parent AS node", "node AS n")
    up = tailrace.recursively(updates, lambda u: climb(u, parents.hint("merge")).repartition(3, "node"))
    rows = trees.run(up)
    assert sorted(rows) == [(1, 4), (1, 5), (1, 6), (1, 7)]
    assert {c["mode"] for c in rows.counts()} == {"fixpoint"}


def test_counting_descendants_with_parents_before_children(trees: Trees) -> None:
    edges = forest(60, random.Random(7))
    trees.add("nodes", edges[:30], edges[30:])
    trees.add("parents", edges)
    parents = trees.table("parents")
    updates = trees.stream("nodes").selectExpr("parent AS node", "1 AS n")
    above = tailrace.recursively(updates, lambda u: climb(u, parents))
    counts = updates.union(above).groupBy("node").count()
    rows = trees.run(counts, mode="complete")
    # In the mode complete each batch gives all counts: the greatest is the last.
    last: Counter[int] = Counter()
    for node, count in rows:
        last[node] = max(last[node], count)
    assert last == descendants(edges)


def count_in_any_order(trees: Trees, files: list[list[tuple[int, int]]]) -> Counter[int]:
    """The final counts of a query that gets these files of nodes, one after the other."""
    trees.add("nodes", *files)
    updates = trees.stream("nodes").selectExpr("parent AS node", "1 AS n")
    # The stream of nodes joined with itself: an update waits for its parent, which may come much later.
    above = tailrace.recursively(updates, lambda u: climb(u, trees.stream("nodes")))
    rows = trees.run(updates.union(above).groupBy("node").count(), mode="update")
    last: Counter[int] = Counter()
    for node, count in rows:
        last[node] = max(last[node], count)
    assert trees.log() == 0
    return last


@ANY_OUTPUT_MODE
@pytest.mark.slow
def test_counting_descendants_with_nodes_in_any_order(trees: Trees) -> None:
    """The online correction: children first, and the counts of their forebears are set right later."""
    edges = [(n, n - 1) for n in range(2, 7)]
    assert count_in_any_order(trees, [edges[3:], edges[1:3], edges[:1]]) == descendants(edges)


@ANY_OUTPUT_MODE
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(int(os.environ.get("TAILRACE_PERMUTATIONS", "2"))))
def test_counts_equal_the_batch_answer_for_every_order_of_arrival(trees: Trees, seed: int) -> None:
    rng = random.Random(f"{SEED}-{seed}")
    edges = forest(rng.randrange(5, 40), rng)
    expected = descendants(edges)
    rng.shuffle(edges)
    cut = sorted(rng.randrange(1, len(edges)) for _ in range(rng.randrange(3)))
    files = [edges[a:b] for a, b in itertools.pairwise([0, *cut, len(edges)]) if a < b]
    assert count_in_any_order(trees, files) == expected


def test_the_way_up_by_plain_reckoning() -> None:
    assert sorted(ancestors(TREE)) == [(4, 1), (5, 1), (6, 1), (7, 1)]
    assert descendants(TREE) == {1: 6, 2: 2, 3: 2}
