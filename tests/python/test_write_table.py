"""`tailrace.write_table`: refusals without a library.

`tables_of_library.py`, `values_of_library.py` and, of windows, `windows_of_library.py` with Delta and with
Iceberg.
"""

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

_OF_LIBRARY = [Path(__file__).with_name(f"{of}_of_library.py") for of in ("tables", "values", "windows")]


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    return spark.readStream.format("rate").load()


@pytest.mark.contract(any_spark=True)
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


@pytest.mark.parametrize("kind", ["map(1, value)", "to_variant_object(struct(value))"])
def test_keys_that_cant_be_compared_are_refused(rows: DataFrame, kind: str) -> None:
    with pytest.raises(tailrace.TailraceTableError, match="whose values can be compared") as refused:
        tailrace.write_table(rows.selectExpr(f"struct({kind} AS of) AS key"), "examples", keys="key")
    assert refused.value.condition == "TAILRACE_COLUMN_TYPE"


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
    merging = tailrace.write_table(rows, "examples").option("mergeSchema", "yes")
    with pytest.raises(tailrace.TailraceTableError, match=r"`mergeSchema` of .* is 'yes'"):
        merging.option("checkpointLocation", str(tmp_path)).start()


@pytest.mark.campaign
@pytest.mark.parametrize("mode", ["classic", "connect"])
@pytest.mark.parametrize("lake", LAKES)
def test_tables_of_a_library(repository: Path, tmp_path: Path, lake: str, mode: str) -> None:
    _run(repository, tmp_path, lake, mode, "not long")


@pytest.mark.long
@pytest.mark.parametrize("lake", LAKES)
def test_tables_of_hundreds_of_micro_batches(repository: Path, tmp_path: Path, lake: str) -> None:
    print(_run(repository, tmp_path, lake, "classic", "long"))


def _run(repository: Path, tmp_path: Path, lake: str, mode: str, marked: str) -> str:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_", "SPARK_"))}
    environ = {**kept, "SPARK_LOCAL_IP": "127.0.0.1", "TAILRACE_LAKE": lake, "TAILRACE_MODE": mode}
    line = [
        sys.executable,
        "-m",
        "pytest",
        "-qs",
        "-m",
        marked,
        *map(str, _OF_LIBRARY),
        f"--basetemp={tmp_path / 'base'}",
    ]
    done = subprocess.run(line, capture_output=True, text=True, check=False, env=environ, cwd=repository)
    assert done.returncode == 0, done.stdout[-6000:]
    return done.stdout


# A task has (728 - 300) * 0.6 / 2 = 128 MB. The rows are 320 MB of text that no codec makes small.
_LARGE = """
import sys
from pyspark.sql import SparkSession
import lakes, tailrace

root, lake = sys.argv[1:]
builder = SparkSession.builder.master("local[2]").config("spark.driver.memory", "728m")
builder = builder.config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "2")
for name, value in lakes.settings(lake, f"{root}/warehouse").items():
    builder = builder.config(name, value)
spark = tailrace.configure(builder).getOrCreate()
numbers = spark.range(0, 2_000_000, 1, 2)
text = "concat(uuid(), uuid(), uuid(), uuid()) AS note"
numbers.selectExpr("id", "id % 1000000 AS key", text).write.parquet(f"{root}/rows")
for keys in (None, "key"):
    rows = spark.readStream.schema("id long, key long, note string").parquet(f"{root}/rows")
    table = lakes.table(f"of_{keys}", lake)
    writer = tailrace.write_table(rows, table, format=lake, keys=keys)
    writer = writer.option("checkpointLocation", f"{root}/checkpoint-{keys}")
    writer.trigger(availableNow=True).start().awaitTermination()
    found = spark.table(table).selectExpr("count(*)", "count(DISTINCT key)", "sum(length(note))").first()
    print("FOUND", keys, *found)
"""


@pytest.mark.campaign
@pytest.mark.parametrize("lake", LAKES)
def test_a_micro_batch_that_is_larger_than_the_memory_of_its_tasks(tmp_path: Path, lake: str) -> None:
    paths = [str(_OF_LIBRARY[0].parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    environ = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": os.pathsep.join(paths)}
    line = [sys.executable, "-c", _LARGE, str(tmp_path), lake]
    done = subprocess.run(line, capture_output=True, text=True, check=False, env=environ, cwd=tmp_path)
    found = [line.split() for line in done.stdout.splitlines() if line.startswith("FOUND")]
    assert found == [
        ["FOUND", "None", "2000000", "1000000", "288000000"],
        ["FOUND", "key", "1000000", "1000000", "144000000"],
    ], done.stderr[-4000:]
