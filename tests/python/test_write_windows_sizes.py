"""Windows whose files have a target size: how many files, of which rows, over restarts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tailrace
from window_logs import NOON, Logs, name

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("stopped_queries")

_TASKS = 8


def _land(logs: Logs, *by: str, **options: Any) -> None:  # noqa: ANN401 - as they are there
    frame = logs.waiting().repartition(_TASKS, "id")
    writer = tailrace.write_windows(frame, logs.out, "at", **logs.options, **options)
    writer = writer.option("checkpointLocation", str(logs.root / "checkpoint"))
    writer.partitionBy(*by).trigger(availableNow=True).start().awaitTermination()


def _files(logs: Logs, folder: str) -> int:
    return len(list((logs.out / folder).glob("**/*.parquet")))


def _ids(logs: Logs, folder: str) -> list[Any]:
    return sorted(pq.read_table(logs.out / folder, columns=["id"])["id"].to_pylist())


@pytest.mark.slow
def test_a_micro_batch_has_a_file_for_each_window_and_directory(spark: SparkSession, tmp_path: Path) -> None:
    plain, gathered = (Logs(spark, tmp_path / kind) for kind in ("plain", "gathered"))
    for round_ in range(2):
        rows = [(host, second) for host in "ab" for second in (*range(30), None)]
        rows += [(host, 41 + 10 * round_) for host in "ab"]
        for logs in (plain, gathered):
            logs.add(*rows)
        _land(plain, "host")
        _land(gathered, "host", target_file_size="128 MB")
    # All windows of the first round are closed when the second one comes: it's late.
    folders = [name(second) for second in (0, 10, 20)]
    for folder in (*folders, *(f"_late/{f}" for f in folders), "_untimed"):
        assert _ids(gathered, folder) == _ids(plain, folder) != [], folder
    assert [_files(gathered, f) for f in (*folders, f"_late/{name(0)}", "_untimed")] == [2, 2, 2, 2, 4]
    assert all(_files(plain, f) > 2 for f in folders)
    assert [gathered.marker(second) for second in (0, 40)] != [None, None]
    assert gathered.marker(50) is None


@pytest.mark.campaign
def test_a_large_window_has_several_files_from_the_first_micro_batch_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    logs = Logs(spark, tmp_path)
    rows = 500_000
    for batch in range(3):
        table = {
            "host": pa.array(["a"] * rows),
            "at": pa.array([NOON] * rows, pa.timestamp("us", "UTC")),
            "id": pa.array(
                np.random.default_rng(batch).integers(0, 1 << 62, rows)
            ),  # 4 MB that nothing packs
        }
        pq.write_table(pa.table(table), tmp_path / "in" / f"{batch}.parquet")
        before = set(logs.out.glob("**/*.parquet"))
        _land(logs, target_file_size="1 MB")
        sizes = [f.stat().st_size for f in set(logs.out.glob("**/*.parquet")) - before]
        assert 3 <= len(sizes) <= 8, sizes
        if batch:  # by now it knows how well the rows are packed
            assert all(400_000 < size < 2_200_000 for size in sizes), sizes
    assert logs.rows(name(0)) == 3 * rows


def test_nothing_to_land_is_gathered_too_and_the_setting_may_change(
    spark: SparkSession, tmp_path: Path
) -> None:
    logs = Logs(spark, tmp_path)
    for options in ({}, {"target_file_size": "16 MB"}, {"target_file_size": "1m"}):
        logs.add()
        _land(logs, **options)
        logs.add(("a", 1), ("b", 2))
        _land(logs, **options)
    assert logs.rows(name(0)) == 6
