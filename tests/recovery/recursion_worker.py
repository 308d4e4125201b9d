"""The process that the recursion campaign kills: climbs a tree that it reads as two streams of a folder.

recursion_worker.py ROOT
"""

from __future__ import annotations

import sys
from pathlib import Path

import worker_session

import tailrace

SCHEMA = "node long, parent long"


def main() -> None:
    root = Path(sys.argv[1])
    spark = worker_session.start()
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    nodes = reader.parquet(str(root / "nodes"))
    parents = reader.parquet(str(root / "nodes"))
    pairs = tailrace.recursively(
        nodes.selectExpr("node AS leaf", "parent AS node"),
        lambda up: up.join(parents, "node").selectExpr("leaf", "parent AS node"),
    )
    worker_session.run(worker_session.into_files(pairs, root), worker_session.at(root, "checkpoint"))


if __name__ == "__main__":
    main()
