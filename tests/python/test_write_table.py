"""`tailrace.write_table`: refusals without a library; `tables_of_library.py` with Delta and with Iceberg."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import tailrace
from lakes import LAKES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tailrace.options import TableFormat

_OF_LIBRARY = Path(__file__).with_name("tables_of_library.py")


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    return spark.readStream.format("rate").load()


@pytest.mark.contract
@pytest.mark.parametrize("lake", ["delta", "iceberg"])
def test_a_library_that_is_missing_is_named(rows: DataFrame, tmp_path: Path, lake: TableFormat) -> None:
    writer = tailrace.write_table(rows, "examples", format=lake, keys="value")
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    with pytest.raises(tailrace.TailraceTableError, match=r"spark\.jars\.packages") as refused:
        writer.start()
    assert refused.value.condition == "TAILRACE_TABLE_LIBRARY"
    assert not (tmp_path / "checkpoint").exists()


@pytest.mark.parametrize(
    ("options", "condition"),
    [
        ({"format": "hudi"}, "TAILRACE_OPTION_INVALID"),
        ({"table": " "}, "TAILRACE_OPTION_INVALID"),
        ({"table": "/data/examples", "format": "iceberg"}, "TAILRACE_OPTION_INVALID"),
        ({"keys": []}, "TAILRACE_OPTION_INVALID"),
        ({"keys": ["value", "nobody"]}, "TAILRACE_COLUMN_NOT_FOUND"),
    ],
)
def test_arguments_are_refused_by_name(rows: DataFrame, options: dict[str, Any], condition: str) -> None:
    with pytest.raises(tailrace.TailraceTableError) as refused:
        tailrace.write_table(rows, **{"table": "examples", **options})
    assert refused.value.condition == condition
    assert refused.value.parameters["argument"] == next(iter(options))


def test_a_batch_dataframe_is_refused(spark: SparkSession) -> None:
    with pytest.raises(tailrace.TailraceTableError) as refused:
        tailrace.write_table(spark.range(1), "examples")
    assert refused.value.condition == "TAILRACE_TABLE_BATCH"


def test_the_format_is_no_format_of_its_own(rows: DataFrame, tmp_path: Path) -> None:
    writer = rows.writeStream.format("tailrace-table").option("checkpointLocation", str(tmp_path))
    with pytest.raises(tailrace.TailraceTableError, match="left to write_table"):
        writer.start()
    with pytest.raises(tailrace.TailraceTableError, match="start\\(\\) has no path"):
        tailrace.write_table(rows, "examples").start("elsewhere")


@pytest.mark.campaign
@pytest.mark.parametrize("mode", ["classic", "connect"])
@pytest.mark.parametrize("lake", LAKES)
def test_tables_of_a_library(repository: Path, tmp_path: Path, lake: str, mode: str) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_", "SPARK_"))}
    environ = {**kept, "SPARK_LOCAL_IP": "127.0.0.1", "TAILRACE_LAKE": lake, "TAILRACE_MODE": mode}
    line = [sys.executable, "-m", "pytest", "-q", str(_OF_LIBRARY), f"--basetemp={tmp_path / 'base'}"]
    done = subprocess.run(line, capture_output=True, text=True, check=False, env=environ, cwd=repository)
    assert done.returncode == 0, done.stdout[-6000:]
