"""Streams of a tree's nodes for the tests of recursions, and the trees themselves."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from arrivals import arrive

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

NODE = "node long, parent long"
# Of queries that join two streams, outside of the output mode append.
ANY_OUTPUT_MODE = pytest.mark.spark(
    ">=4.2", reason="Spark 4.1 joins two streams in the output mode append only"
)
_numbers = itertools.count()

Edge = tuple[int, int]


class Trees:
    """Folders of files, which are streams or tables of edges; queries that read all there is."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self.spark = spark
        self.root = root

    def add(self, name: str, *files: Iterable[Edge]) -> None:
        """Each file is one micro-batch of the stream."""
        (self.root / name).mkdir(exist_ok=True)
        for edges in files:
            table = pa.table(list(zip(*edges, strict=True)), ["node", "parent"])
            arrive(self.root / name, next(_numbers), table)

    def stream(self, name: str) -> DataFrame:
        reader = self.spark.readStream.schema(NODE).option("maxFilesPerTrigger", 1)
        return reader.parquet(str(self.root / name))

    def table(self, name: str) -> DataFrame:
        return self.spark.read.schema(NODE).parquet(str(self.root / name))

    def start(
        self, result: DataFrame, name: str = "query", mode: str = "append", **trigger: str | bool
    ) -> StreamingQuery:
        """By default until all is read."""
        writer = result.writeStream.format("memory").queryName(f"{name}_{next(_numbers)}").outputMode(mode)
        writer = writer.option("checkpointLocation", str(self.root / name))
        return writer.trigger(**(trigger or {"availableNow": True})).start()  # type: ignore[arg-type]

    def run(self, result: DataFrame, name: str = "query", mode: str = "append") -> Rows:
        query = self.start(result, name, mode)
        query.awaitTermination()
        # An idle query reports its last batch once more.
        progress = {p["batchId"]: p for p in query.recentProgress}
        rows = [tuple(row) for row in self.spark.table(query.name).collect()]
        return Rows(rows, list(progress.values()))

    def log(self, name: str = "query") -> int:
        """Bytes of rows that are on their way round."""
        files = list((self.root / name / "tailrace-recursion").rglob("*.fed"))
        # The files of earlier batches are kept, as long as the query may be set back to them.
        empty = (self.root / name / "tailrace-recursion").rglob("*.none")
        last = max((int(p.parent.name) for p in [*files, *empty]), default=0)
        return sum(p.stat().st_size for p in files if int(p.parent.name) == last)


class Rows(list[tuple[Any, ...]]):
    """The output of a query, and its progress."""

    def __init__(self, rows: list[tuple[Any, ...]], progress: list[Any]) -> None:
        super().__init__(rows)
        self.progress = progress

    def counts(self, name: str = "recursion") -> list[dict[str, Any]]:
        """The recursion's report of each batch."""
        observed = [p.observedMetrics[f"tailrace.{name}"] for p in self.progress]
        return [row.asDict(recursive=True) for row in observed]


def down(u: DataFrame) -> DataFrame:
    """An operation that gives the node below, until there is none."""
    return u.where("node > 0").selectExpr("node - 1 AS node", *u.columns[1:])


def forest(nodes: int, rng: random.Random) -> list[Edge]:
    """Node 1 is a root, and any node after it may be another; parents have smaller numbers."""
    return [(n, rng.randrange(1, n)) for n in range(2, nodes + 1) if rng.random() < 0.95]


def ancestors(edges: Iterable[Edge]) -> list[Edge]:
    """(node, ancestor) for all ancestors above the parent."""
    above = dict(edges)
    pairs = []
    for node, parent in above.items():
        at = parent
        while at in above:
            at = above[at]
            pairs.append((node, at))
    return pairs


def descendants(edges: Iterable[Edge]) -> Counter[int]:
    """How many nodes are below each, by plain reckoning."""
    edges = list(edges)
    counts = Counter(parent for _, parent in edges)
    counts.update(ancestor for _, ancestor in ancestors(edges))
    return counts
