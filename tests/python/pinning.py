"""Writes the pins anew, in `tests/golden/pinned`: what must not change without somebody seeing it.

    .venv/bin/python tests/python/pinning.py                    all but checkpoints
    .venv/bin/python tests/python/pinning.py surface            signatures, conditions, metrics, the server
    .venv/bin/python tests/python/pinning.py join,as_of         the entries of these operators
    .venv/bin/python tests/python/pinning.py --checkpoints ...  their checkpoints, too

Read `git diff` behind it: each line is something that users or their checkpoints see. Checkpoints are kept as
an earlier version has written them. A new entry gets one by itself; others are never written anew, because an
earlier one has to go on.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import local_spark
from matrix import pins, surface
from matrix.entries import ENTRIES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

    from matrix.shape import Entry

_REPOSITORY = Path(__file__).parents[2]


def surfaces(spark: SparkSession, directory: Path) -> dict[str, str]:
    """What the code shows, by the names of files."""
    return {
        "python-signatures.txt": surface.python_signatures(),
        "scala-signatures.txt": surface.scala_signatures(spark),
        "conditions.json": pins.as_json(surface.conditions(_REPOSITORY)),
        "metrics.json": pins.as_json(surface.metrics(_REPOSITORY)),
        "server.json": pins.as_json(surface.server_description(directory)),
    }


def entry_files(spark: SparkSession, root: Path, entries: Iterable[Entry], *, checkpoints: bool) -> None:
    """Writes those of entries."""
    for entry in entries:
        made = pins.EntryPins(spark, root / entry.name, entry)
        assert made.plan, "plans are of a classic session"
        write(pins.PINNED / "plans" / f"{entry.name}.txt", made.plan)
        if made.joins:
            write(pins.PINNED / "joins" / f"{entry.name}.json", pins.as_json(made.joins))
        _merge(pins.PINNED / "rows" / f"{entry.operator}.json", entry.name, made.rows)
        _merge(pins.PINNED / "progress" / f"{entry.operator}.json", entry.name, made.keys)
        kept = pins.PINNED / "checkpoints" / f"{entry.name}.zip"
        if entry.name in pins.CHECKPOINTS and (checkpoints or not kept.exists()):
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_bytes(made.checkpoint)
        print(entry.name, flush=True)


def _merge(file: Path, name: str, value: Any) -> None:  # noqa: ANN401 - it is JSON
    known = json.loads(file.read_text()) if file.exists() else {}
    known[name] = value
    names = {entry.name for entry in ENTRIES}
    write(file, pins.as_json({one: known[one] for one in sorted(known) if one in names}))


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def main(arguments: list[str]) -> None:
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    checkpoints = "--checkpoints" in arguments
    named = [one for word in arguments if not word.startswith("-") for one in word.split(",")]
    spark = local_spark.start("2g", local_spark.INTERPRETED)
    with tempfile.TemporaryDirectory() as directory:
        if not named or "surface" in named:
            for name, text in surfaces(spark, Path(directory)).items():
                write(pins.PINNED / name, text)
        chosen = [one for one in ENTRIES if not named or one.operator in named or one.name in named]
        entry_files(spark, Path(directory), chosen, checkpoints=checkpoints)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
