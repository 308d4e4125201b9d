"""A Tailrace join as a streaming table of a Declarative Pipeline, run by `spark-pipelines`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest

from connect_server import ConnectServer
from streams import at
from tailrace_pytest import SETTINGS

_SPEC = """
name: examples
storage: {storage}
libraries:
  - glob:
      include: definitions/**
configuration:
  spark.sql.shuffle.partitions: "2"
"""

_DEFINITION = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

import tailrace

spark = SparkSession.active()


def stream(name, time):
    return spark.readStream.schema(f"user INT, {{time}} TIMESTAMP").parquet(f"{data}/{{name}}")


@dp.table
def examples():
    # Spark plans `withWatermark` at once, when no table of the pipeline is there yet: it is set on sources.
    return tailrace.join(
        stream("impressions", "served_at").withWatermark("served_at", "1 minute"),
        stream("clicks", "clicked_at").withWatermark("clicked_at", "1 minute"),
        on="user", left_time="served_at", right_time="clicked_at", after="10 minutes",
    )


@dp.table
def users():
    # A table of the pipeline, which only the pipeline knows.
    users = spark.readStream.table("examples").select("user")
    return tailrace.recursively(users, lambda u: u.where("user > 7").selectExpr("user - 1 AS user"))
"""


def _write(folder: Path, name: str, column: str, rows: list[tuple[int, int]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    users, times = [user for user, _ in rows], [at(second) for _, second in rows]
    pq.write_table(pa.table({"user": pa.array(users, pa.int32()), column: times}), folder / f"{name}.parquet")


@pytest.mark.campaign
def test_a_join_is_a_streaming_table(tmp_path: Path) -> None:
    project, data = tmp_path / "project", tmp_path / "data"
    (project / "definitions").mkdir(parents=True)
    (project / "spark-pipeline.yml").write_text(_SPEC.format(storage=(tmp_path / "storage").as_uri()))
    (project / "definitions" / "examples.py").write_text(_DEFINITION.format(data=data))
    _write(data / "impressions", "1", "served_at", [(7, 0), (8, 10), (9, 100_000)])
    _write(data / "clicks", "1", "clicked_at", [(7, 60), (9, 100_000)])
    home = Path(pyspark.__file__).parent
    environ = {"SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    warehouse = tmp_path / "warehouse"
    server = ConnectServer(tmp_path / "log", {**SETTINGS, "spark.sql.warehouse.dir": str(warehouse)})
    try:
        done = subprocess.run(
            [str(home / "bin" / "spark-pipelines"), "run", "--remote", server.address],
            cwd=project,
            env={**os.environ, **environ},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
    finally:
        server.stop()
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
    examples = _rows(warehouse, "examples")
    assert sorted((row["user"], len(row["labels"])) for row in examples) == [(7, 1), (8, 0)]
    assert [row["user"] for row in _rows(warehouse, "users")] == [7], done.stdout


def _rows(warehouse: Path, table: str) -> list[dict[str, Any]]:
    files = warehouse.rglob(f"{table}/*.parquet")
    return [row for file in files for row in pq.read_table(file).to_pylist()]
