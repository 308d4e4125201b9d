"""What is peculiar to Spark Connect. `TAILRACE_MODE=connect pytest` runs the other tests over it."""

from __future__ import annotations

import shutil
import subprocess
import venv
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
import pytest
from pyspark.sql import SparkSession

import tailrace
from connect_server import ConnectServer
from tailrace.errors import TailraceJoinError, TailraceSessionError
from tailrace.testing.plugin import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Iterator

_ON: dict[str, Any] = {
    "on": "user",
    "left_time": "served_at",
    "right_time": "clicked_at",
    "after": "10 minutes",
}

# What a client does that has neither Java nor py4j.
_CLIENT = """
import importlib.util, sys
assert importlib.util.find_spec("py4j") is None
import shutil
assert shutil.which("java") is None
import tailrace
from pyspark.sql import SparkSession
spark = tailrace.configure(SparkSession.builder.remote(sys.argv[1])).getOrCreate()
left = spark.sql("SELECT 7 AS user, TIMESTAMP '2026-01-01 12:00:00' AS served_at")
right = spark.sql("SELECT 7 AS user, TIMESTAMP '2026-01-01 12:05:00' AS clicked_at, 1 AS n")
times = {"left_time": "served_at", "right_time": "clicked_at", "after": "1 hour"}
joined = tailrace.join(left, right, on=[(left["user"], right["user"])], **times)
print(joined.selectExpr("user", "labels[0].n AS n").collect())
try:
    tailrace.join(left, right, on="nobody", **times)
except tailrace.TailraceJoinError as error:
    print(error.condition, error.parameters["column"])
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    started = ConnectServer(tmp_path_factory.mktemp("connect") / "log", SETTINGS)
    yield started
    started.stop()


@pytest.mark.campaign
def test_a_client_needs_no_java_and_no_py4j(server: ConnectServer, tmp_path: Path) -> None:
    """`pyspark-client` is PySpark without Spark and py4j."""
    venv.create(tmp_path / "client", with_pip=True)
    python = str(tmp_path / "client" / "bin" / "python")
    series = ".".join(pyspark.__version__.split(".")[:2])
    subprocess.run([python, "-m", "pip", "install", "-q", f"pyspark-client=={series}.*"], check=True)
    (folder,) = (tmp_path / "client").rglob("site-packages")
    shutil.copytree(Path(tailrace.__file__).parent, folder / "tailrace")
    # PySpark takes a client without a main file for its own doctests.
    script = tmp_path / "client.py"
    script.write_text(_CLIENT)
    done = subprocess.run(
        [python, str(script), server.address],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": str(tmp_path)},
    )
    assert done.stdout.splitlines() == ["[Row(user=7, n=1)]", "TAILRACE_COLUMN_NOT_FOUND nobody"], done.stderr


@pytest.mark.campaign
def test_a_server_without_tailrace_is_refused_in_one_sentence(tmp_path: Path) -> None:
    bare = ConnectServer(tmp_path / "log", SETTINGS, has_tailrace=False)
    try:
        spark = SparkSession.builder.remote(bare.address).create()
        frame = spark.sql("SELECT 1 AS user, now() AS served_at, now() AS clicked_at")
        with pytest.raises(TailraceSessionError, match="The Spark Connect server runs without Tailrace"):
            tailrace.join(frame, frame, **_ON)
        spark.stop()
    finally:
        bare.stop()


@pytest.mark.campaign
def test_an_error_has_its_class_its_condition_and_spark_s_class(server: ConnectServer) -> None:
    spark = SparkSession.builder.remote(server.address).create()
    frame = spark.sql("SELECT 1 AS user, now() AS served_at, now() AS clicked_at")
    with pytest.raises(TailraceJoinError) as refused:
        tailrace.join(frame, frame, **(_ON | {"after": "soon"}))
    assert refused.value.condition == "TAILRACE_OPTION_INVALID"
    assert refused.value.parameters["argument"] == "after"
    assert "AnalysisException" in {kind.__name__ for kind in type(refused.value).__mro__}
    spark.stop()
