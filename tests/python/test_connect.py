"""What is peculiar to Spark Connect. `TAILRACE_MODE=connect pytest` runs the other tests over it."""

from __future__ import annotations

import re
import shutil
import subprocess
import venv
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest

import tailrace
from connect_server import ConnectServer
from tailrace_pytest import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Callable

    RunPython = Callable[..., subprocess.CompletedProcess[str]]

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


# The function of foreachBatch runs in a process of the server's, in a session that Spark 4.3 has cloned.
_EACH_BATCH = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
folder = sys.argv[2]
served = "SELECT id AS user, TIMESTAMP '2026-01-01 12:00:00' AS served_at FROM range(4)"
spark.sql(served).write.parquet(folder + "/served")

def each(rows, batch):
    import tailrace
    clicked = "SELECT 2L AS user, TIMESTAMP '2026-01-01 12:05:00' AS clicked_at, 1 AS n"
    times = {"left_time": "served_at", "right_time": "clicked_at", "after": "1 hour"}
    joined = tailrace.join(rows, rows.sparkSession.sql(clicked), on="user", **times)
    joined.selectExpr("user", "size(labels) AS labels").write.mode("append").parquet(folder + "/out")

query = (
    spark.readStream.schema("user LONG, served_at TIMESTAMP").parquet(folder + "/served")
    .writeStream.foreachBatch(each).option("checkpointLocation", folder + "/checkpoint")
    .trigger(availableNow=True).start()
)
assert query.awaitTermination(120)
print(sorted(tuple(row) for row in spark.read.parquet(folder + "/out").collect()))
"""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The Python of an installation with `pyspark-client`, which is PySpark without Spark and py4j."""
    folder = tmp_path_factory.mktemp("client")
    venv.create(folder, with_pip=True)
    python = str(folder / "bin" / "python")
    series = ".".join(pyspark.__version__.split(".")[:2])
    subprocess.run([python, "-m", "pip", "install", "-q", f"pyspark-client=={series}.*"], check=True)
    (packages,) = folder.rglob("site-packages")
    shutil.copytree(Path(tailrace.__file__).parent, packages / "tailrace")
    return python


def _on_client(
    client: str, script: Path, *arguments: str, **environ: str
) -> subprocess.CompletedProcess[str]:
    """Runs a script where no program is found, Java neither."""
    # PySpark takes a client without a main file for its own doctests.
    return subprocess.run(
        [client, str(script), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": str(script.parent), **environ},
    )


@pytest.mark.campaign
def test_a_client_needs_no_java_and_no_py4j(
    connect_server: ConnectServer, client: str, tmp_path: Path
) -> None:
    script = tmp_path / "client.py"
    script.write_text(_CLIENT)
    done = _on_client(client, script, connect_server.address)
    assert done.stdout.splitlines() == ["[Row(user=7, n=1)]", "TAILRACE_COLUMN_NOT_FOUND nobody"], done.stderr


@pytest.mark.campaign
def test_the_first_example_is_the_same_program_on_a_client(
    connect_server: ConnectServer, client: str, repository: Path, tmp_path: Path
) -> None:
    """But for its folders: the server has another working directory."""
    block = r"<!-- example:quickstart -->\n```python\n(.*?)```\n\n```\n(.*?)```"
    found = re.search(block, (repository / "README.md").read_text(), re.DOTALL)
    assert found
    script = tmp_path / "first.py"
    script.write_text(re.sub('"(served|engaged|examples|checkpoint)"', rf'"{tmp_path}/\1"', found[1]))
    done = _on_client(client, script, SPARK_REMOTE=connect_server.address)
    assert done.stdout.strip() == found[2].strip(), done.stderr


# A session of Spark Connect makes its whole process one of Spark Connect: each of these runs in its own.
_REFUSED = """
import sys
import tailrace
from pyspark.sql import SparkSession
spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
frame = spark.sql("SELECT 1 AS user, now() AS served_at, now() AS clicked_at")
try:
    tailrace.join(frame, frame, on="user", left_time="served_at", right_time="clicked_at", after="soon")
except tailrace.TailraceError as error:
    print(type(error).__name__)
    print("AnalysisException" in {kind.__name__ for kind in type(error).__mro__})
    print(error.condition, error.parameters.get("argument"))
    print(error)
"""


def _refused(connect_server: ConnectServer, run_python: RunPython, script: Path) -> list[str]:
    script.write_text(_REFUSED)
    done = run_python(str(script), connect_server.address)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.campaign
def test_a_function_of_foreach_batch_calls_tailrace(
    connect_server: ConnectServer, run_python: RunPython, tmp_path: Path
) -> None:
    client = tmp_path / "client.py"
    client.write_text(_EACH_BATCH)
    done = run_python(str(client), connect_server.address, str(tmp_path))
    assert done.stdout == "[(0, 0), (1, 0), (2, 1), (3, 0)]\n", done.stderr[-3000:]


@pytest.mark.campaign
def test_a_server_without_tailrace_is_refused_in_one_sentence(run_python: RunPython, tmp_path: Path) -> None:
    bare = ConnectServer(tmp_path / "log", SETTINGS, has_tailrace=False)
    try:
        told = _refused(bare, run_python, tmp_path / "client.py")
    finally:
        bare.stop()
    assert told[:3] == ["TailraceSessionError", "False", "None None"]
    assert told[3].startswith("The Spark Connect server runs without Tailrace: start it with the jar")
    assert len(told) == 4


_TESTS = """
import sys
import tailrace
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tailrace._bridge import calls
from tailrace.testing import StreamTest
spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
try:
    with StreamTest(spark, sys.argv[2]) as test:
        print(test.now)
        try:
            print(calls.invoke(test._streams, "getClass"))
        except PySparkException as error:
            print("NoSuchMethodException" in str(error))
except tailrace.TailraceSessionError as error:
    print(error.condition)
"""


@pytest.mark.campaign
def test_only_a_server_for_tests_takes_those_of_clients(
    connect_server: ConnectServer, run_python: RunPython, tmp_path: Path
) -> None:
    """And by their methods only: `getClass` would lead a client to all classes of the server."""
    script = tmp_path / "client.py"
    script.write_text(_TESTS)
    done = run_python(str(script), connect_server.address, str(tmp_path / "test"))
    assert done.stdout.splitlines() == ["2026-01-01 00:00:00+00:00", "True"], done.stderr
    ours = ConnectServer(tmp_path / "log", {**SETTINGS, "spark.tailrace.connect.testing": "false"})
    try:
        done = run_python(str(script), ours.address, str(tmp_path / "test"))
    finally:
        ours.stop()
    assert done.stdout.splitlines() == ["TAILRACE_CONNECT_TESTING_OFF"], done.stderr


@pytest.mark.campaign
def test_an_error_has_its_class_its_condition_and_spark_s_class(
    connect_server: ConnectServer, run_python: RunPython, tmp_path: Path
) -> None:
    told = _refused(connect_server, run_python, tmp_path / "client.py")
    assert told[:3] == ["TailraceJoinError", "True", "TAILRACE_OPTION_INVALID after"]
