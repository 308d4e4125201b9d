"""Operations for recursions, put together at random, each on frames and on rows in plain Python.

A row is (left, node): how many hops it has left, so that each recursion ends, and where it is. Columns behind
these go along.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it

from modes import CONNECT

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from trees import Trees

Row = tuple[int, int]
NODES = 13


@dataclass(frozen=True)
class Op:
    """One operation.

    Attributes:
        text: for messages.
        on_frame: from a frame to one.
        on_node: what becomes of a row's node: any number of nodes.
    """

    text: str
    on_frame: Callable[[DataFrame], DataFrame]
    on_node: Callable[[int], list[int]]


def _moved(u: DataFrame, node: str) -> DataFrame:
    return u.selectExpr("left", f"{node} AS node", *u.columns[2:])


def _map(rng: random.Random, _: Trees) -> Op:
    a, b = rng.randrange(1, 4), rng.randrange(7)
    return Op(
        f"map {a} {b}",
        lambda u: _moved(u, f"(node * {a} + {b}) % {NODES}"),
        lambda n: [(n * a + b) % NODES],
    )


def _filter(rng: random.Random, _: Trees) -> Op:
    k = rng.randrange(2, 5)
    return Op(f"filter {k}", lambda u: u.where(f"node % {k} != 0"), lambda n: [n] if n % k else [])


def _explode(rng: random.Random, _: Trees) -> Op:
    k = rng.randrange(2, 4)
    kept = F.expr(f"filter(sequence(node, node + 2), x -> x % {k} = 0)")
    return Op(
        f"explode {k}",
        lambda u: u.select("left", F.explode(kept).alias("node"), *u.columns[2:]),
        lambda n: [x for x in range(n, n + 3) if x % k == 0],
    )


def _table(rng: random.Random, trees: Trees, rows: list[Row]) -> tuple[str, DataFrame]:
    """The same rows, of a size that Spark knows or doesn't."""
    spark, schema = trees.spark, "node long, parent long"
    kind = rng.choice(("rows", "rdd", "pandas", "files", "values", "merge"))
    if kind == "files":
        name = f"table{rng.randrange(10**9)}"
        trees.add(name, rows)
        return kind, trees.table(name)
    if kind == "values":
        pairs = F.array(*[F.struct(F.lit(n).alias("node"), F.lit(p).alias("parent")) for n, p in rows])
        return kind, spark.range(1).select(F.inline(pairs)).select(
            F.col("node").cast("long"), F.col("parent").cast("long")
        )
    if kind == "rdd" and not CONNECT:
        return kind, spark.createDataFrame(spark.sparkContext.parallelize(rows, 2), schema)
    frame = spark.createDataFrame(rows, schema)
    if kind == "pandas":
        return kind, frame.mapInPandas(lambda frames: frames, schema)
    return kind, frame.hint("merge") if kind == "merge" else frame


def _join(rng: random.Random, trees: Trees) -> Op:
    rows = [(rng.randrange(NODES), rng.randrange(NODES)) for _ in range(rng.randrange(4, 14))]
    kind, table = _table(rng, trees, rows)
    is_left = rng.random() < 0.7

    def on_frame(u: DataFrame) -> DataFrame:
        joined = u.join(table, "node") if is_left else table.join(u, "node")
        return joined.select("left", F.col("parent").alias("node"), *u.columns[2:])

    return Op(f"join {kind}", on_frame, lambda n: [parent for node, parent in rows if node == n])


def _range_join(rng: random.Random, trees: Trees) -> Op:
    rows = [(rng.randrange(NODES), 0) for _ in range(rng.randrange(2, 8))]
    kind, table = _table(rng, trees, rows)
    steps = table.select(F.col("node").alias("step"))
    wide = rng.randrange(1, 4)

    def on_frame(u: DataFrame) -> DataFrame:
        joined = u.join(steps, (steps.step > u.node) & (steps.step <= u.node + wide))
        return joined.select("left", F.col("step").alias("node"), *u.columns[2:])

    return Op(f"range join {kind}", on_frame, lambda n: [s for s, _ in rows if n < s <= n + wide])


def _product(rng: random.Random, trees: Trees) -> Op:
    rows = [(rng.randrange(NODES), 0) for _ in range(rng.randrange(2, 5))]
    kind, table = _table(rng, trees, rows)
    steps, k = table.select(F.col("node").alias("step")), rng.randrange(2, 4)

    def on_frame(u: DataFrame) -> DataFrame:
        return _moved(u.crossJoin(steps).where(f"(node + step) % {k} = 0"), "step").drop("step")

    return Op(f"product {kind}", on_frame, lambda n: [s for s, _ in rows if (n + s) % k == 0])


def _semi(rng: random.Random, trees: Trees) -> Op:
    rows = [(n, 0) for n in rng.sample(range(NODES), 6)]
    kind, table = _table(rng, trees, rows)
    how = rng.choice(("left_semi", "left_anti"))
    nodes = {n for n, _ in rows}
    return Op(
        f"{how} {kind}",
        lambda u: u.join(table, "node", how).select("left", "node", *u.columns[2:]),
        lambda n: [n] if (n in nodes) == (how == "left_semi") else [],
    )


def _python(rng: random.Random, _: Trees) -> Op:
    a = rng.randrange(1, 9)
    function = F.udf(lambda n: (n + a) % NODES, "long", useArrow=rng.random() < 0.5)
    return Op(
        f"python {a}",
        lambda u: u.select("left", function("node").alias("node"), *u.columns[2:]),
        lambda n: [(n + a) % NODES],
    )


def _placed(rng: random.Random, _: Trees) -> Op:
    ways: dict[str, Callable[[DataFrame], DataFrame]] = {
        "repartition": lambda u: u.repartition(2, "node"),
        "coalesce": lambda u: u.coalesce(1),
        "round robin": lambda u: u.repartition(2),
    }
    text = rng.choice(tuple(ways))
    return Op(text, ways[text], lambda n: [n])


def _union(rng: random.Random, trees: Trees) -> Op:
    one, other = several(rng, trees, 1), several(rng, trees, 1)
    return Op(
        f"({one.text} | {other.text})",
        lambda u: one.on_frame(u).union(other.on_frame(u)),
        lambda n: one.on_node(n) + other.on_node(n),
    )


_MAKERS = (_map, _filter, _explode, _join, _range_join, _product, _semi, _python, _placed, _union)


def several(rng: random.Random, trees: Trees, most: int = 3) -> Op:
    """Some operations, one on what the other gives."""
    # Two products in a row would be more than plain Python likes.
    ops = [rng.choice(_MAKERS)(rng, trees) for _ in range(rng.randrange(1, most + 1))]

    def on_frame(u: DataFrame) -> DataFrame:
        for op in ops:
            u = op.on_frame(u)
        return u

    def on_node(node: int) -> list[int]:
        nodes = [node]
        for op in ops:
            nodes = [after for before in nodes for after in op.on_node(before)]
        return nodes

    return Op(" > ".join(op.text for op in ops), on_frame, on_node)


def expected(starts: list[Row], op: Op, most: int, *, stop_at_cycles: bool) -> list[tuple[Row, ...]] | None:
    """The ways of all rows that come out, from where each has started; None if they are more than `most`."""
    out: list[tuple[Row, ...]] = []
    ways: list[tuple[Row, ...]] = [(start,) for start in starts]
    while ways:
        further = []
        for way in ways:
            left, node = way[-1]
            after = op.on_node(node) if left > 0 else []
            seen = {n for _, n in way} if stop_at_cycles else set()
            further += [(*way, (left - 1, n)) for n in after if n not in seen]
        out += further
        if len(out) > most:
            return None
        ways = further
    return out
