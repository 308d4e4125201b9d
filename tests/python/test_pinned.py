"""What is pinned in `tests/golden/pinned` is what the code has. `pinning.py` writes it anew.

The entries' pins are compared by the matrix: `TAILRACE_MATRIX=/pinned,/kept` takes all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import pinning
from matrix import pins
from matrix.entries import ENTRIES

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

_LARGEST = 100_000


@pytest.mark.classic("reads the JVM's classes")
def test_signatures_conditions_metrics_and_the_server(spark: SparkSession, tmp_path: Path) -> None:
    found = pinning.surfaces(spark, tmp_path)
    told = [line for name, text in found.items() for line in pins.difference(pins.PINNED / name, text)]
    assert not told, "\n".join([*told, "If that is meant: .venv/bin/python tests/python/pinning.py surface"])


def test_every_entry_is_pinned_and_nothing_else() -> None:
    names = {entry.name for entry in ENTRIES}
    assert {file.stem for file in (pins.PINNED / "plans").iterdir()} == names
    assert {file.stem for file in (pins.PINNED / "joins").iterdir()} <= names
    assert {file.stem for file in (pins.PINNED / "checkpoints").iterdir()} == set(pins.CHECKPOINTS) <= names
    assert [f.name for f in pins.PINNED.rglob("*") if f.is_file() and f.stat().st_size > _LARGEST] == []
