"""Which jar is for which Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyspark
import pytest

import tailrace
from tailrace import TailraceSessionError, TailraceVersionError, cli

if TYPE_CHECKING:
    from pathlib import Path

VERSION = tailrace.__version__


@pytest.fixture(autouse=True)
def jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation with jars for two minor versions, and what else may lie there."""
    for name in (f"spark4.1_2.13-{VERSION}", f"spark4.10_2.13-{VERSION}", "spark4.3_2.13-0.0.1", VERSION):
        (tmp_path / f"tailrace-{name}.jar").touch()
    monkeypatch.setattr("tailrace._jar._FOLDER", tmp_path)
    monkeypatch.setattr(pyspark, "__version__", "4.10.2")
    return tmp_path


def test_the_pyspark_that_is_installed_decides(jars: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert tailrace.jar_path() == jars / f"tailrace-spark4.10_2.13-{VERSION}.jar"
    monkeypatch.setattr(pyspark, "__version__", "4.1.0")
    assert tailrace.jar_path() == jars / f"tailrace-spark4.1_2.13-{VERSION}.jar"


@pytest.mark.parametrize("spark", ["4.1", "4.1.7"])
def test_that_of_another_spark(jars: Path, spark: str) -> None:
    assert tailrace.jar_path(spark) == jars / f"tailrace-spark4.1_2.13-{VERSION}.jar"


def test_a_spark_without_a_jar_is_refused_with_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TailraceVersionError) as asked:
        tailrace.jar_path("4.3")
    assert str(asked.value) == (
        "Spark 4.3 is asked for, and this installation of tailrace has jars for Spark 4.1, 4.10: run pip "
        'install "pyspark==4.10.*", or build tailrace with TAILRACE_SPARK=4.3 in pip\'s environment.'
    )
    monkeypatch.setattr(pyspark, "__version__", "4.3.0")
    with pytest.raises(TailraceVersionError, match=r"^pyspark 4\.3\.0 is installed, and"):
        tailrace.jar_path()


def test_no_jar_at_all(jars: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tailrace._jar._FOLDER", jars / "none")
    with pytest.raises(TailraceSessionError, match="has no jar"):
        tailrace.jar_path("4.3")


def test_the_commands_say_which(
    jars: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == (
        f"tailrace {VERSION}, with jars for Spark 4.1, 4.10\n"
        f"pyspark 4.10.2 takes tailrace-spark4.10_2.13-{VERSION}.jar\n"
    )
    assert cli.main(["jar", "--spark", "4.1.3"]) == 0
    assert capsys.readouterr().out == f"{jars / f'tailrace-spark4.1_2.13-{VERSION}.jar'}\n"
    assert cli.main(["connect-conf", "--spark", "4.1"]) == 0
    assert capsys.readouterr().out.startswith(
        f"--jars {jars / f'tailrace-spark4.1_2.13-{VERSION}.jar'}\n--conf "
    )
    monkeypatch.setattr(pyspark, "__version__", "4.3.0")
    assert cli.main(["--version"]) == 1
    told = capsys.readouterr()
    assert told.out == f"tailrace {VERSION}, with jars for Spark 4.1, 4.10\n"
    assert told.err.startswith("tailrace: pyspark 4.3.0 is installed, and")
