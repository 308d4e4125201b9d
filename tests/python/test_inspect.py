"""`tailrace inspect`: the command against a checkpoint of a real query, and its parts."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from streams import Row, Streams
from tailrace.commands import inspection, java_program
from tailrace.errors import TailraceError, TailraceSessionError, TailraceStateError
from tailrace.testing import StreamTest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RunPython = Callable[..., subprocess.CompletedProcess[str]]
PROGRAM = "io.tailrace.ops.inspect.Inspect"


@pytest.fixture(scope="module")
def checkpoint(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    with StreamTest(spark, tmp_path_factory.mktemp("inspected"), "12:00") as test:
        streams = Streams(test)
        query = streams.query(streams.join(before="1 minute"))
        for step in range(3):
            left = [Row(step * 10 + i, i, step * 60 + i) for i in range(6)]
            streams.add(left, [Row(r.id, r.key, r.second + 29) for r in left[:2]])
            query.run()
    return query.checkpoint


def stores(spark: SparkSession, checkpoint: Path, batch: int) -> Counter[str]:
    rows = spark.read.format("statestore").option("batchId", batch).load(str(checkpoint))
    return Counter(row[0] for row in rows.select("key.tailrace_store").collect())


@pytest.mark.campaign
def test_the_report_counts_the_rows_that_sparks_reader_finds(spark: SparkSession, checkpoint: Path) -> None:
    newest = inspection.inspect_checkpoint(str(checkpoint))
    for version in (newest["version"], 2, 3):
        report = inspection.inspect_checkpoint(str(checkpoint), version)
        assert report["batch"] == version - 1
        (operator,) = report["operators"]
        found = {store["store"]: store["rows"] for store in operator["stores"] if store["rows"]}
        assert found == stores(spark, checkpoint, version - 1)
        assert operator["rows"] == sum(partition["rows"] for partition in operator["partitions"])
        assert operator["settings"]["after"] == "30000000 microseconds"
    assert newest["version"] == max(int(f.name) for f in (checkpoint / "commits").glob("[0-9]*")) + 1


@pytest.mark.slow
def test_the_command_for_people(run_python: RunPython, checkpoint: Path) -> None:
    done = run_python("-m", "tailrace", "inspect", str(checkpoint))
    assert (done.returncode, done.stderr) == (0, "")
    (operator,) = inspection.inspect_checkpoint(str(checkpoint))["operators"]
    assert f"checkpoint  {checkpoint} (format 1)\n" in done.stdout
    assert re.search(
        r"^operator 0, tailraceLabelJoin: \d+ rows of [\d.]+ k?B, \d+ files of", done.stdout, re.MULTILINE
    )
    assert re.search(r"^  before +0:01:00$", done.stdout, re.MULTILINE)
    assert re.search(
        rf"^ +all  left-time-sorted +{operator['stores'][0]['rows']} .*Z .*2026-01-01T12:02:05Z$",
        done.stdout,
        re.MULTILINE,
    )


def test_the_command_for_machines(run_python: RunPython, checkpoint: Path) -> None:
    done = run_python("-m", "tailrace", "inspect", str(checkpoint), "--batch", "1", "--json")
    assert json.loads(done.stdout) == inspection.inspect_checkpoint(str(checkpoint), 2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "condition"),
    [
        (["--version", "99"], "TAILRACE_CHECKPOINT_VERSION_NOT_RETAINED"),
        (["--conf", "spark.hadoop.fs.defaultFS=nosuchscheme://there"], "TAILRACE_STATE_UNREADABLE"),
    ],
)
def test_a_refusal_is_one_line_and_exit_code_1(
    run_python: RunPython, checkpoint: Path, arguments: list[str], condition: str
) -> None:
    done = run_python("-m", "tailrace", "inspect", str(checkpoint), *arguments)
    assert done.returncode == 1
    assert done.stdout == ""
    assert re.fullmatch(rf"tailrace: \[{condition}\] [^\n]+\n", done.stderr)
    assert "SQLSTATE" not in done.stderr


@pytest.mark.parametrize(
    "arguments", [["--version", "0"], ["--version", "1", "--batch", "0"], ["--conf", "x"]]
)
def test_wrong_usage_is_exit_code_2(run_python: RunPython, arguments: list[str]) -> None:
    assert run_python("-m", "tailrace", "inspect", "somewhere", *arguments).returncode == 2


@pytest.mark.slow
def test_a_file_system_whose_jar_is_not_there() -> None:
    settings = {"spark.hadoop.fs.gone.impl": "no.such.FileSystem"}
    with pytest.raises(TailraceStateError) as refusal:
        inspection.inspect_checkpoint("gone://bucket/checkpoint", settings=settings)
    assert refusal.value.condition == "TAILRACE_STATE_UNREADABLE"
    assert "no.such.FileSystem" in refusal.value.parameters["reason"]


@pytest.mark.slow
def test_no_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(TailraceStateError) as refusal:
        inspection.inspect_checkpoint(str(tmp_path / "gone"))
    assert refusal.value.condition == "TAILRACE_CHECKPOINT_NOT_FOUND"
    assert refusal.value.parameters == {"path": str(tmp_path / "gone")}
    assert not (tmp_path / "gone").exists()


def test_no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(TailraceSessionError, match="JAVA_HOME"):
        inspection.inspect_checkpoint("somewhere")


@pytest.mark.slow
def test_a_program_that_fails_says_so_in_its_own_words() -> None:
    with pytest.raises(TailraceStateError, match="NumberFormatException") as refusal:
        java_program.run(PROGRAM, ["somewhere", "not a number"], {})
    assert refusal.value.condition == "TAILRACE_STATE_UNREADABLE"
    with pytest.raises(TailraceError, match="Could not find or load main class") as failure:
        java_program.run("io.tailrace.NoSuchProgram", [], {})
    assert "exit code 1" in str(failure.value)


@pytest.mark.campaign
def test_settings_win_over_the_file(
    monkeypatch: pytest.MonkeyPatch, checkpoint: Path, tmp_path: Path
) -> None:
    (tmp_path / "spark-defaults.conf").write_text("spark.hadoop.fs.defaultFS nosuchscheme://there\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    with pytest.raises(TailraceStateError, match="nosuchscheme"):
        inspection.inspect_checkpoint(str(checkpoint))
    settings = {"spark.hadoop.fs.defaultFS": "file:///"}
    assert inspection.inspect_checkpoint(str(checkpoint), settings=settings)["operators"]


def test_the_class_path_is_a_drivers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java_program, "spark_home", lambda: Path("/spark"))
    monkeypatch.setattr(java_program, "jar_path", lambda: Path("/tailrace.jar"))
    properties = {"spark.jars": "file:/a%20b.jar, /c.jar", "spark.driver.extraClassPath": "/first"}
    environ = {"HADOOP_CONF_DIR": "/hadoop", "SPARK_DIST_CLASSPATH": "/dist/*"}
    entries = [
        "/first",
        "/spark/conf",
        "/tailrace.jar",
        "/spark/jars/*",
        "/a b.jar",
        "/c.jar",
        "/hadoop",
        "/dist/*",
    ]
    assert java_program._class_path(environ, properties) == os.pathsep.join(entries)
    assert java_program._class_path({"SPARK_CONF_DIR": "/own"}, {}).startswith(
        f"/own{os.pathsep}/tailrace.jar"
    )


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (999_949, "999.9 kB"),
        (999_951, "1.0 MB"),
        (1.26e10, "12.6 GB"),
    ],
)
def test_sizes(count: int, text: str) -> None:
    assert inspection._size(int(count)) == text


def test_a_bound_is_no_exact_time() -> None:
    store: dict[str, Any] = {"store": "left-time-sorted", "rows": 1, "bytes": 1, "newest": "T2"}
    store |= {"oldest": "T1", "oldestIsBound": True}
    operator = {
        "stores": [store],
        "partitions": [{"partition": 0, "stores": [{**store, "oldestIsBound": False}]}],
    }
    assert [row[4] for row in inspection._store_rows(operator)] == [">=T1", "T1"]


@pytest.mark.campaign
def test_s3_without_its_jar_names_the_class_and_the_setting() -> None:
    with pytest.raises(TailraceStateError) as refusal:
        inspection.inspect_checkpoint("s3a://bucket/checkpoint")
    assert "Class org.apache.hadoop.fs.s3a.S3AFileSystem not found" in str(refusal.value)
    assert "--conf spark.jars=..." in str(refusal.value)
    assert "SQLSTATE" not in str(refusal.value)


def test_a_version_that_is_no_number_is_told_as_one(run_python: RunPython) -> None:
    done = run_python("-m", "tailrace", "inspect", "somewhere", "--version", "x")
    assert (done.returncode, "_positive" in done.stderr) == (2, False)
    assert "x isn't a whole number" in done.stderr
