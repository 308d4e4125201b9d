"""What is pinned in `tests/golden/pinned` is what the code has. `pinning.py` writes it anew.

The entries' pins are compared by the matrix: `TAILRACE_MATRIX=/pinned,/kept` takes all of them.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import pinning
from matrix import pins
from matrix.entries import ENTRIES
from matrix.rows import Rows
from matrix.runs import Run

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

_LARGEST = 100_000


@pytest.mark.classic("reads the JVM's classes")
def test_signatures_conditions_metrics_and_the_server(spark: SparkSession, tmp_path: Path) -> None:
    found = pinning.surfaces(spark, tmp_path)
    told = [line for name, text in found.items() for line in pins.difference(pins.PINNED / name, text)]
    assert not told, "\n".join([*told, "If that is meant: .venv/bin/python tests/python/pinning.py surface"])


@pytest.mark.classic("reads the physical plan of each query")
def test_plans(spark: SparkSession, tmp_path: Path) -> None:
    # Of all entries: the matrix takes a tenth of them in CI, and a plan costs no run.
    told: list[str] = []
    for entry in ENTRIES:
        with Run(spark, tmp_path / entry.name, entry, Rows(pins.SEED)) as run:
            told += pins.difference(
                pins.PINNED / "plans" / f"{entry.name}.txt", pins.plan_of(run.definition())
            )
    assert not told, "\n".join([*told, "If that is meant: .venv/bin/python tests/python/pinning.py"])


def test_progress_has_metrics_that_are_pinned_and_is_as_it_is_written() -> None:
    # These are what somebody who renames a metric by hand forgets; the values need a run of each entry.
    metrics_of = json.loads((pins.PINNED / "metrics.json").read_text())
    known = {where: {line.split()[0] for line in lines} for where, lines in metrics_of.items()}
    told: list[str] = []
    for file in sorted((pins.PINNED / "progress").iterdir()):
        text = file.read_text()
        for name, keys in json.loads(text).items():
            for operator, metrics in keys.get("operators", {}).items():
                if operator in known:
                    others = set(metrics) - known[operator] - known["joins"] - known["operator"]
                    told += [f"{name}: {operator}: {one}" for one in sorted(others)]
                if metrics != sorted(metrics):
                    told.append(f"{name}: {operator}: not in the order in which they are written")
        assert text == pins.as_json(json.loads(text)), file.name
    assert not told, "\n".join(told)


def test_every_entry_is_pinned_and_nothing_else() -> None:
    names = {entry.name for entry in ENTRIES}
    assert {file.stem for file in (pins.PINNED / "plans").iterdir()} == names
    assert {file.stem for file in (pins.PINNED / "joins").iterdir()} <= names
    assert {file.stem for file in (pins.PINNED / "checkpoints").iterdir()} == set(pins.CHECKPOINTS) <= names
    assert [f.name for f in pins.PINNED.rglob("*") if f.is_file() and f.stat().st_size > _LARGEST] == []
