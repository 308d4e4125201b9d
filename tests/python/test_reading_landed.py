"""Complete windows that `write_windows` has landed: their reader, and the folders that other tests make."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

import tailrace
from landed_windows import LandedWindows
from tailrace.reading import WindowReader
from window_logs import Logs, name

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("stopped_queries")


def _shape(window: Path) -> tuple[set[str], object]:
    """The names of a window's files, without what differs each time, and the keys of its report."""
    visible = [file.name for file in window.iterdir() if not file.name.startswith(".")]
    names = {re.sub(r"\d{5}-\d+-[\w-]+", "N", file) for file in visible}
    report = json.loads((window / "_SUCCESS").read_text())
    return names, (report["format"], set(report), set(report["sources"][0]))


@pytest.mark.contract(any_spark=True)
def test_complete_windows_have_the_rows_that_spark_has(spark: SparkSession, tmp_path: Path) -> None:
    logs = Logs(spark, tmp_path)
    logs.land(("a", 1), ("b", 2), ("a", 25), ("b", 3))
    reader = WindowReader(logs.out, batch_size=2)
    with pytest.raises(tailrace.TailraceWatermarkError) as refusal:
        list(reader)
    assert refusal.value.condition == "TAILRACE_WINDOWS_NONE_COMPLETE"
    logs.land(("b", 40))
    batches = list(reader)
    state = reader.state_dict()
    found = sorted(row["id"] for batch in batches for row in batch.to_pylist())
    complete = spark.read.parquet(str(logs.out)).where(f"window_start = '{name(0)[13:]}'")
    assert found == sorted(row.id for row in complete.collect()) == [0, 1, 3]
    assert [window.name for window in reader.windows()] == [name(at)[13:] for at in (0, 10)]
    # Late rows are beside their window; of the further windows each row follows once.
    logs.land(("a", 4), ("a", 60), ("b", 60))
    reader.load_state_dict(state)
    assert [row["id"] for batch in reader for row in batch.to_pylist()] == [2, 1000]
    late = WindowReader(logs.out, late=True)
    assert sorted(row["id"] for batch in late for row in batch.to_pylist()) == [0, 1, 2, 3, 1000, 2000]
    reports = tailrace.window_report(spark, logs.out).collect()
    assert [window.start for window in reader.windows()] == [row.window_start.astimezone() for row in reports]
    assert [window.rows for window in reader.windows()] == [row.rows for row in reports]


def test_the_folders_of_other_tests_are_as_landed_ones(spark: SparkSession, tmp_path: Path) -> None:
    logs = Logs(spark, tmp_path / "real")
    logs.land(("a", 1), ("b", 2))
    logs.land(("a", 3), ("a", 20), ("b", 20))
    made = LandedWindows(tmp_path / "made")
    made.land(2, 1)
    assert _shape(made.directory(0)) == _shape(logs.out / name(0))
