"""`tailrace size` against measured runs: the results that benchmarks have left in the repository."""

from __future__ import annotations

import json
import re
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tailrace.sizing import Load, constants
from tailrace.sizing.state import state
from tailrace.sizing.work import busy_cores

if TYPE_CHECKING:
    from pathlib import Path

RESULTS = "benchmarks/results"
PARTITIONS = f"{RESULTS}/partitions.txt"
SHAPES = f"{RESULTS}/partitions-other-shapes.txt"
CLOSE = 0.25
# Partitions of the run that no fit has seen.
HELD_OUT = 12


def raw(repository: Path, name: str) -> list[dict[str, Any]]:
    """The runs at the end of a result."""
    lines = (repository / name).read_text().splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]


def parameter(repository: Path, name: str, of: str) -> float:
    found = re.search(rf"\b{of} ([\d.]+)", (repository / name).read_text())
    assert found
    return float(found[1])


def load_of_slices(repository: Path, name: str, after: float) -> Load:
    """The load of a run of feature_label.py, by its options and 1,300,577 right rows of 124 bytes."""
    seconds = parameter(repository, name, "hours") * 3600
    return Load(
        left=parameter(repository, name, "left") / seconds,
        right=1_300_577 / seconds,
        left_bytes=124,
        right_bytes=124,
        after=after,
        delay=120,
        trigger=seconds / parameter(repository, name, "slices"),
        partitions=2,
        cores=2,
    )


def load_of_point(run: dict[str, Any]) -> Load:
    """The load of a run of partitions.py: half as many right rows as left ones, a window of half an hour."""
    trigger = 1800 / run["window_batches"]
    rows = run["measured_rows"] / trigger
    return Load(
        left=rows * 2 / 3,
        right=rows / 3,
        left_bytes=24 + run["value_bytes"],
        right_bytes=24 + run["value_bytes"],
        after=1800,
        delay=120,
        trigger=trigger,
        partitions=run["partitions"],
        cores=2,
    )


@pytest.mark.parametrize(
    ("name", "after"),
    [
        ("feature-label-2600000-200-slices-30-minutes", 1800),
        ("feature-label-2600000-20-slices-30-minutes", 1800),
        ("feature-label-2600000-20-slices-2-hours", 7200),
        ("feature-label-2600000-20-slices-12-minutes", 720),
    ],
)
def test_bytes_on_disk_and_into_the_checkpoint(repository: Path, name: str, after: float) -> None:
    path = f"{RESULTS}/{name}.txt"
    runs = [run for run in raw(repository, path) if run["engine"] == "tailrace"]
    load = load_of_slices(repository, path, after)
    found = state(load, 2)
    seconds = parameter(repository, path, "hours") * 3600
    assert found.local_bytes == pytest.approx(median(r["local_peak_bytes"] for r in runs), rel=CLOSE)
    written = median(r["written_bytes"] for r in runs)
    assert found.written_bytes * seconds == pytest.approx(written, rel=CLOSE)


def held_out(repository: Path) -> dict[str, Any]:
    """A run of another shape than those that the constants are fitted to: 12 partitions, 224 bytes a row."""
    (run,) = (run for run in raw(repository, SHAPES) if run["partitions"] == HELD_OUT)
    assert run["engine"] == "tailrace"
    return run


def test_state_and_requests_of_a_run_that_no_fit_has_seen(repository: Path) -> None:
    run = held_out(repository)
    load = load_of_point(run)
    found = state(load, HELD_OUT)
    assert found.rows == pytest.approx(run["state_rows"], rel=CLOSE)
    assert found.local_bytes == pytest.approx(run["local_peak_bytes"], rel=CLOSE)
    of_a_row = found.written_bytes / load.rows
    assert of_a_row == pytest.approx(run["written_bytes"] / run["all_rows"], rel=CLOSE)
    files = run["written_files"] / run["all_batches"] / HELD_OUT
    assert constants.PUTS.value == pytest.approx(files, rel=CLOSE)


def test_cpu_of_a_row_of_a_run_that_no_fit_has_seen(repository: Path) -> None:
    run = held_out(repository)
    load = load_of_point(run)
    measured = run["task_cpu_seconds"] / run["measured_rows"]
    calculated = busy_cores(load, HELD_OUT).in_batch / load.rows
    assert calculated == pytest.approx(measured, rel=CLOSE)


def fitted(repository: Path, engine: str) -> list[float]:
    """CPU of the tasks of a micro-batch: its own, of a partition, of a row, and of a byte of a row.

    Least squares of the relative residuals over all runs but the one that is held out.
    """
    runs = [
        run
        for run in raw(repository, PARTITIONS) + raw(repository, SHAPES)
        if run.get("engine") == engine and run["partitions"] != HELD_OUT
    ]
    rows = np.array([run["measured_rows"] for run in runs])
    row_bytes = np.array([24 + run["value_bytes"] for run in runs])
    partitions = np.array([run["partitions"] for run in runs])
    times = np.array([run["task_cpu_seconds"] for run in runs])
    terms = np.column_stack([np.ones(len(runs)), partitions, rows, rows * row_bytes])
    found: list[float] = np.linalg.lstsq(terms / times[:, None], np.ones(len(runs)), rcond=None)[0].tolist()
    return found


def test_constants_are_those_of_a_fit(repository: Path) -> None:
    batch, partition, row, byte = fitted(repository, "tailrace")
    assert constants.SCAN.value == pytest.approx(batch, rel=0.05)
    assert constants.TASK_PARTITION.value == pytest.approx(partition, rel=0.05)
    _, _, shuffled_row, shuffled_byte = fitted(repository, "floor")
    # What a row costs beside its bytes is less than the fit can tell.
    little = 1e-7
    assert constants.SHUFFLED_ROW.value == pytest.approx(shuffled_row, abs=little)
    assert constants.SHUFFLED_BYTE.value == pytest.approx(shuffled_byte, rel=0.05)
    assert constants.JOINED_ROW.value == pytest.approx(row - shuffled_row, abs=little)
    assert constants.JOINED_BYTE.value == pytest.approx(byte - shuffled_byte, rel=0.05)
