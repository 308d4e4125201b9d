from __future__ import annotations

import io
import subprocess
import tarfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType


@pytest.fixture(scope="session")
def spark_jars(load_script: Callable[[str], ModuleType]) -> ModuleType:
    return load_script("python/build_backend/spark_jars.py")


def source_distribution(path: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return path


MEMBERS = {
    "pyspark-4.3.0/deps/jars/spark-sql_2.13-4.3.0.jar": b"sql",
    "pyspark-4.3.0/deps/jars/scala-library-2.13.18.jar": b"scala",
    "pyspark-4.3.0/deps/bin/spark-submit": b"#!",
    "pyspark-4.3.0/pyspark/elsewhere.jar": b"no",
}


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def fake_pip(monkeypatch: pytest.MonkeyPatch, spark_jars: ModuleType, members: dict[str, bytes]) -> list[str]:
    asked: list[str] = []

    def run(line: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        asked.append(line[-1])
        into = Path(line[line.index("--dest") + 1])
        if members:
            source_distribution(into / f"{line[-1].replace('==', '-')}.tar.gz", members)
        return subprocess.CompletedProcess(line, 0 if members else 1)

    monkeypatch.setattr(spark_jars.subprocess, "run", run)
    return asked


def test_the_jars_of_a_source_distribution_and_of_a_wheel(tmp_path: Path, spark_jars: ModuleType) -> None:
    source, wheel = tmp_path / "source", tmp_path / "wheel"
    source.mkdir()
    wheel.mkdir()
    spark_jars.unpack(source_distribution(tmp_path / "pyspark-4.3.0.tar.gz", MEMBERS), source)
    with zipfile.ZipFile(tmp_path / "pyspark-4.3.0.whl", "w") as archive:
        archive.writestr("pyspark/jars/spark-sql_2.13-4.3.0.jar", b"sql")
        archive.writestr("pyspark/jars/scala-library-2.13.18.jar", b"scala")
        archive.writestr("pyspark/bin/spark-submit", b"#!")
    spark_jars.unpack(tmp_path / "pyspark-4.3.0.whl", wheel)
    expected = {"spark-sql_2.13-4.3.0.jar": b"sql", "scala-library-2.13.18.jar": b"scala"}
    assert contents(source) == expected
    assert contents(wheel) == expected


def test_they_are_downloaded_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark_jars: ModuleType
) -> None:
    asked = fake_pip(monkeypatch, spark_jars, MEMBERS)
    environ = {"TAILRACE_SPARK_JARS": str(tmp_path / "spark")}
    first = spark_jars.get("4.3.0", environ)
    assert first == tmp_path / "spark" / "4.3.0"
    assert spark_jars.get("4.3.0", environ) == first
    assert asked == ["pyspark==4.3.0"]
    assert len(contents(first)) == 2
    # What was downloaded is gone.
    assert list(first.parent.iterdir()) == [first]


@pytest.mark.parametrize(
    ("version", "members", "said"),
    [
        ("4.3", MEMBERS, "'4.3' is no version of Spark"),
        ("4.9.9", {}, "pip couldn't download pyspark 4.9.9"),
        ("4.3.0", {"pyspark-4.3.0/PKG-INFO": b"x"}, "pyspark-4.3.0.tar.gz has no jars"),
    ],
)
def test_what_is_not_to_be_had_is_one_sentence_and_leaves_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    spark_jars: ModuleType,
    version: str,
    members: dict[str, bytes],
    said: str,
) -> None:
    fake_pip(monkeypatch, spark_jars, members)
    with pytest.raises(spark_jars.SparkJarsError, match=said):
        spark_jars.get(version, {"TAILRACE_SPARK_JARS": str(tmp_path)})
    assert list(tmp_path.iterdir()) == []
