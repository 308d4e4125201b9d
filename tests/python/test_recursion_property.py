"""Random recursions, each way round, against plain Python.

All but the first one are long: `TAILRACE_RECURSIONS` sets how many, `TAILRACE_SEED` which.
"""

from __future__ import annotations

import math
import os
import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it

import tailrace
from recursion_ops import NODES, Op, Row, expected, several
from trees import Trees

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

SEED = os.environ.get("TAILRACE_SEED", "20261121")
MANY = int(os.environ.get("TAILRACE_RECURSIONS", "4"))
_MOST = 4000


def _near_half(ones: int, of: int) -> bool:
    return abs(ones - of / 2) <= 6 * math.sqrt(of / 4)


class Case:
    """A recursion and what must come of it."""

    def __init__(self, rng: random.Random, trees: Trees) -> None:
        self.trees = trees
        self.has_path = rng.random() < 0.5
        while True:
            self.op: Op = several(rng, trees)
            self.starts: list[Row] = [
                (rng.randrange(1, 6), rng.randrange(NODES)) for _ in range(rng.randrange(1, 20))
            ]
            ways = expected(self.starts, self.op, _MOST, stop_at_cycles=self.has_path)
            if ways:
                self.ways = ways
                break
        self.files = [self.starts[i::2] for i in range(min(2, len(self.starts)))]
        trees.add("nodes", *self.files)

    def start(self, rows: DataFrame) -> DataFrame:
        return rows.selectExpr("node AS left", "parent AS node", "0 AS tag", "0 AS agrees")

    def around(self, u: DataFrame) -> DataFrame:
        """A hop: the operation, and a coin that is tossed for each row, and compared with the last one."""
        ahead = u.where("left > 0").selectExpr("left - 1 AS left", "node", "tag", "agrees")
        tossed = self.op.on_frame(ahead).withColumn("toss", F.expr("IF(rand() < 0.5, 1, 0)"))
        return tossed.selectExpr("left", "node", "toss AS tag", "IF(toss = tag, 1, 0) AS agrees")

    def recursion(self, rows: DataFrame, op: Any = None, **options: str) -> DataFrame:  # noqa: ANN401
        if self.has_path:
            options |= {"path_columns": "node", "on_cycle": "drop"}
        return tailrace.recursively(self.start(rows), op or self.around, **options)  # type: ignore[arg-type]

    def check(self, rows: list[Any], way: str) -> None:
        text = f"{way}: {self.op.text}, from {self.starts}"
        if self.has_path:
            wanted = Counter((*w[-1], tuple(node for _, node in w)) for w in self.ways)
            found = Counter((r[0], r[1], tuple(r[4])) for r in rows)
        else:
            wanted = Counter((*w[-1], ()) for w in self.ways)
            found = Counter((r[0], r[1], ()) for r in rows)
        assert found == wanted, text
        assert _near_half(sum(r[2] for r in rows), len(rows)), text
        assert _near_half(sum(r[3] for r in rows), len(rows)), text


@pytest.mark.parametrize("number", [0, *(pytest.param(n, marks=pytest.mark.long) for n in range(1, MANY))])
def test_each_way_round_gives_what_plain_python_gives(
    spark: SparkSession, tmp_path: Path, number: int
) -> None:
    case = Case(random.Random(f"{SEED}-{number}"), Trees(spark, tmp_path))
    table = case.trees.table("nodes")
    case.check(case.recursion(table).collect(), "batch")
    exchanged = case.recursion(table, lambda u: case.around(u.repartition(2, "node")))
    case.check(exchanged.collect(), "batch, exchanged")
    for mode in ("fixpoint", "feedback"):
        rows = case.trees.run(case.recursion(case.trees.stream("nodes"), mode=mode), mode)
        case.check(rows, mode)
        assert {c["mode"] for c in rows.counts()} == {mode}
