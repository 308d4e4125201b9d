"""The benchmark of recursion's peer in Kafka Streams: runs peers/DescendantsLoop.java, next to the broker."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.csv

import forest
from tailrace._installation.java import find_java
from tailrace.kafka import KAFKA_VERSION, resolve

if TYPE_CHECKING:
    from collections.abc import Sequence

_PROGRAM = Path(__file__).with_name("peers") / "DescendantsLoop.java"
_MODULES = (
    ("org.apache.kafka", "kafka-streams", KAFKA_VERSION),
    ("org.slf4j", "slf4j-simple", "1.7.36"),
)


def run(root: Path, servers: str, total: str) -> float:
    """Counts the descendants in the forest below `root`; returns seconds.

    They begin when the table of parents is loaded, and end with the last of `total` counts: making the topics
    and writing the forest into them aren't in them. The topic `updates` must be there, with nothing in it.
    """
    found: dict[str, float] = json.loads(_launch(root, servers, total))
    return found["seconds"]


def check(root: Path, servers: str, total: str) -> bool:
    """Whether it counts as plain reckoning does, in the forest below `root`."""
    counts = root / "counts.csv"
    _launch(root, servers, total, str(counts))
    pairs = (line.split(",") for line in counts.read_text().splitlines())
    return {int(node): int(count) for node, count in pairs} == forest.descendants(root)


def _launch(root: Path, servers: str, total: str, *more: str) -> str:
    edges = root / "edges.csv"
    pyarrow.csv.write_csv(forest.edges(root), edges, pyarrow.csv.WriteOptions(include_header=False))
    jars = resolve(f"kafka-streams-{KAFKA_VERSION}", _MODULES, transitive=True)
    java: Sequence[str] = [
        *(str(find_java(os.environ).path), "-Xmx4g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"),
        *("-cp", str(jars / "*"), str(_PROGRAM), servers, str(edges), total, str(root / "state"), *more),
    ]
    return subprocess.run(java, stdout=subprocess.PIPE, text=True, check=True).stdout
