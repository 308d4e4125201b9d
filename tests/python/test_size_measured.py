"""`tailrace size` against measured runs: the results that benchmarks have left in the repository."""

from __future__ import annotations

import json
import re
from statistics import median
from typing import TYPE_CHECKING, Any

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
    (run,) = (run for run in raw(repository, SHAPES) if run["partitions"] == 12)
    assert run["engine"] == "tailrace"
    return run


def test_state_and_requests_of_a_run_that_no_fit_has_seen(repository: Path) -> None:
    run = held_out(repository)
    load = load_of_point(run)
    found = state(load, 12)
    assert found.rows == pytest.approx(run["state_rows"], rel=CLOSE)
    assert found.local_bytes == pytest.approx(run["local_peak_bytes"], rel=CLOSE)
    of_a_row = found.written_bytes / load.rows
    assert of_a_row == pytest.approx(run["written_bytes"] / run["all_rows"], rel=CLOSE)
    files = run["written_files"] / run["all_batches"] / 12
    assert constants.PUTS.value == pytest.approx(files, rel=CLOSE)


def test_cpu_of_a_row_of_a_run_that_no_fit_has_seen(repository: Path) -> None:
    run = held_out(repository)
    load = load_of_point(run)
    measured = run["task_cpu_seconds"] / run["measured_rows"]
    calculated = busy_cores(load, 12).in_batch / load.rows
    assert calculated == pytest.approx(measured, rel=CLOSE)


def fitted(repository: Path, engine: str) -> tuple[float, float, float]:
    """a, b and c of the CPU of tasks, in seconds."""
    text = (repository / PARTITIONS).read_text()
    row = re.search(rf"^{engine} +tasks' CPU ms +([\d.-]+) +([\d.-]+) +([\d.-]+) ", text, re.MULTILINE)
    assert row
    return float(row[1]) / 1e3, float(row[2]) / 1e3, float(row[3]) / 1e6


def test_constants_are_those_of_the_fits(repository: Path) -> None:
    batch, partition, joined = fitted(repository, "tailrace")
    assert constants.SCAN.value == pytest.approx(batch, rel=0.05)
    assert constants.TASK_PARTITION.value == pytest.approx(partition, rel=0.05)
    _, _, shuffled = fitted(repository, "floor")
    of_a_row = constants.SHUFFLED_ROW.value + 124 * constants.SHUFFLED_BYTE.value
    assert of_a_row == pytest.approx(shuffled, rel=0.05)
    of_a_row += constants.JOINED_ROW.value + 124 * constants.JOINED_BYTE.value
    assert of_a_row == pytest.approx(joined, rel=0.05)


def test_larger_rows_take_what_they_took(repository: Path) -> None:
    def of_a_byte(engine: str) -> float:
        runs = {r["value_bytes"]: r for r in raw(repository, SHAPES) if r["engine"] == engine}
        small, large = (runs[size]["task_cpu_seconds"] / runs[size]["measured_rows"] for size in (20, 400))
        return float((large - small) / 380)

    assert constants.SHUFFLED_BYTE.value == pytest.approx(of_a_byte("floor"), rel=0.05)
    joined = of_a_byte("tailrace") - constants.SHUFFLED_BYTE.value
    assert constants.JOINED_BYTE.value == pytest.approx(joined, rel=0.05)
