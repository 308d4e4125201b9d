"""Which jars a build makes, and what the wheel that has them requires."""

from __future__ import annotations

import email
import os
import re
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

import tailrace
from tailrace._installation import jar as _jar

if TYPE_CHECKING:
    from types import ModuleType

FakeProgram = Callable[[str, str], Path]

VERSION = tailrace.__version__


@pytest.fixture(scope="session")
def sparks(load_script: Callable[[str], ModuleType]) -> ModuleType:
    return load_script("python/build_backend/sparks.py")


def test_each_version_has_a_project_of_sbt(sparks: ModuleType, repository: Path) -> None:
    projects = re.findall(r"^lazy val (jvm\d*) =", (repository / "build.sbt").read_text(), re.MULTILINE)
    assert sorted(map(sparks.project, sparks.versions())) == sorted(projects)
    assert list(sparks.versions()) == ["4.1", "4.2", "4.3"]


@pytest.mark.parametrize(
    ("named", "minors", "requirement"),
    [
        (None, ["4.2"], "pyspark>=4.2,<4.3"),
        ("4.3", ["4.3"], "pyspark>=4.3,<4.4"),
        ("4.2, 4.1", ["4.1", "4.2"], "pyspark>=4.1,<4.3"),
        ("4.1,4.3", ["4.1", "4.3"], "pyspark>=4.1,<4.4,!=4.2.*"),
        ("all", ["4.1", "4.2", "4.3"], "pyspark>=4.1,<4.4"),
    ],
)
def test_the_variable_says_which(
    sparks: ModuleType, named: str | None, minors: list[str], requirement: str
) -> None:
    assert sparks.chosen({} if named is None else {"TAILRACE_SPARK": named}) == minors
    assert sparks.requirement(minors) == requirement


@pytest.mark.parametrize("named", ["4.0", "4.2.0", "4.2,", "newest"])
def test_a_version_without_a_jar_is_refused(sparks: ModuleType, named: str) -> None:
    with pytest.raises(sparks.SparkError, match=r"has jars for Spark 4\.1, 4\.2, 4\.3: name some"):
        sparks.chosen({"TAILRACE_SPARK": named})


def fake_pip(monkeypatch: pytest.MonkeyPatch, sparks: ModuleType, jar: str | None) -> list[str]:
    asked: list[str] = []

    def run(line: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        asked.append(line[-1])
        if jar is not None:
            made = Path(line[line.index("--target") + 1], jar)
            made.parent.mkdir(parents=True)
            made.touch()
        return subprocess.CompletedProcess(line, 0 if jar is not None else 1)

    monkeypatch.setattr(sparks.subprocess, "run", run)
    return asked


def test_a_pyspark_is_installed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sparks: ModuleType
) -> None:
    asked = fake_pip(monkeypatch, sparks, "pyspark/jars/spark-sql_2.13-4.3.0.jar")
    version = sparks.versions()["4.3"]
    assert sparks.missing(["4.2", "4.3"], tmp_path) == ["4.3"], "Maven Central has 4.2"
    assert sparks.get("4.3", tmp_path) == tmp_path / version
    assert sparks.get(version, tmp_path) == tmp_path / version
    assert asked == [f"pyspark=={version}"]
    assert list(tmp_path.iterdir()) == [tmp_path / version]
    assert sparks.missing(["4.2", "4.3"], tmp_path) == []


@pytest.mark.parametrize(
    ("version", "jar", "said"),
    [
        ("4.9", "pyspark/jars/a.jar", "'4.9' is no version of Spark"),
        ("4.9.9", None, r"pip couldn't install pyspark 4\.9\.9"),
        ("4.9.9", "pyspark/elsewhere/a.jar", r"pip couldn't install pyspark 4\.9\.9"),
    ],
)
def test_what_is_not_to_be_had_leaves_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    sparks: ModuleType,
    version: str,
    jar: str | None,
    said: str,
) -> None:
    fake_pip(monkeypatch, sparks, jar)
    with pytest.raises(sparks.SparkError, match=said):
        sparks.get(version, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def tree(
    tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch, fake_program: FakeProgram
) -> Path:
    """A copy of what a wheel is made of, and an sbt that makes small jars."""
    jars = tmp_path / "made"
    jars.mkdir()
    for minor in ("4.1", "4.2", "4.3"):
        with zipfile.ZipFile(jars / f"{minor}.jar", "w") as jar:
            jar.writestr("META-INF/MANIFEST.MF", f"Tailrace-Spark-Version: {minor}.0\r\n")
            jar.writestr("Common.class", "the same")
            jar.writestr("Bridge.class", f"of {minor}")
            jar.writestr(f"Only{minor}.class", "nowhere else")
    root = tmp_path / "tree"
    for folder in ("python", "project"):
        unwanted = shutil.ignore_patterns("__pycache__", "target", "jars")
        shutil.copytree(repository / folder, root / folder, ignore=unwanted)
    for file in ("build.sbt", "pyproject.toml", "README.md", "LICENSE", "NOTICE"):
        shutil.copy(repository / file, root / file)
    fake_program("java", "echo 'openjdk version \"17.0.15\" 2025-04-15' >&2")
    script = f"""
        mkdir -p jvm/target
        for task; do
          case $task in
            jvm/package) cp {jars}/4.2.jar jvm/target/tailrace-spark4.2_2.13-{VERSION}.jar ;;
            jvm41/package) cp {jars}/4.1.jar jvm/target/tailrace-spark4.1_2.13-{VERSION}.jar ;;
            jvm43/package) cp {jars}/4.3.jar jvm/target/tailrace-spark4.3_2.13-{VERSION}.jar ;;
            *) echo "no $task"; exit 1 ;;
          esac
        done"""
    monkeypatch.setenv("PATH", f"{fake_program('sbt', script)}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return root


def packed(wheel: Path) -> tuple[list[str], list[str]]:
    """The minor versions of a wheel's jars, and what it requires of pyspark."""
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        required = email.message_from_bytes(archive.read(metadata)).get_all("Requires-Dist") or []
        jars = re.findall(
            rf"tailrace/jars/tailrace-spark([\d.]+)_2\.13-{VERSION}\.(?:jar|patch)", str(archive.namelist())
        )
    return sorted(jars), [one for one in required if re.match(r"pyspark[<>!=]", one)]


@pytest.mark.parametrize(
    ("named", "jars", "required"),
    [
        ("", ["4.2"], "pyspark<4.3,>=4.2"),
        ("4.3", ["4.3"], "pyspark<4.4,>=4.3"),
        ("4.3,4.1", ["4.1", "4.3"], "pyspark!=4.2.*,<4.4,>=4.1"),
        ("all", ["4.1", "4.2", "4.3"], "pyspark<4.4,>=4.1"),
    ],
)
def test_a_wheel_requires_the_sparks_that_it_has_jars_for(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str, jars: list[str], required: str
) -> None:
    monkeypatch.setenv("TAILRACE_SPARK", named)
    (wheel,) = WheelBuilder(str(tree)).build(directory=str(tmp_path / "dist"), versions=["standard"])
    assert packed(Path(wheel)) == (jars, [required])


@pytest.mark.parametrize("named", ["all", "4.1,4.3"])
def test_a_wheel_for_several_gives_the_jar_of_each(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    monkeypatch.setenv("TAILRACE_SPARK", named)
    (wheel,) = WheelBuilder(str(tree)).build(directory=str(tmp_path / "dist"), versions=["standard"])
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    monkeypatch.setattr("tailrace._installation.jar._FOLDER", tmp_path / "installed" / "tailrace" / "jars")
    for minor in _jar.jars():
        with (
            zipfile.ZipFile(tailrace.jar_path(minor)) as jar,
            zipfile.ZipFile(tmp_path / "made" / f"{minor}.jar") as made,
        ):
            assert sorted(jar.namelist()) == sorted(made.namelist())
            assert jar.namelist()[0] == "META-INF/MANIFEST.MF"
            assert {name: jar.read(name) for name in jar.namelist()} == {
                name: made.read(name) for name in made.namelist()
            }
    assert _jar.jars() == (["4.1", "4.2", "4.3"] if named == "all" else ["4.1", "4.3"])


def test_an_editable_install_has_the_jars_of_its_last_build(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for named in ("all", "4.3"):
        monkeypatch.setenv("TAILRACE_SPARK", named)
        (hook,) = WheelBuilder(str(tree)).get_build_hooks(str(tmp_path)).values()
        hook.initialize("editable", {})
    folder = tree / "python" / "tailrace" / "jars"
    assert [jar.name for jar in folder.iterdir()] == [f"tailrace-spark4.3_2.13-{VERSION}.jar"]


def test_a_source_distribution_is_for_the_sparks_it_was_made_for(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TAILRACE_SPARK", "all")
    (source,) = SdistBuilder(str(tree)).build(directory=str(tmp_path / "dist"), versions=["standard"])
    shutil.unpack_archive(source, tmp_path / "unpacked")
    unpacked = str(tmp_path / "unpacked" / f"tailrace-{VERSION}")
    (wheel,) = WheelBuilder(unpacked).build(directory=str(tmp_path / "dist"), versions=["standard"])
    assert packed(Path(wheel)) == (["4.1", "4.2", "4.3"], ["pyspark<4.4,>=4.1"])
    monkeypatch.setenv("TAILRACE_SPARK", "4.3")
    with pytest.raises(SystemExit):
        list(WheelBuilder(unpacked).build(directory=str(tmp_path / "dist"), versions=["standard"]))
    assert "requires pyspark<4.4,>=4.1, and jars for pyspark>=4.3,<4.4 are wanted" in capfd.readouterr().err


def test_a_build_for_a_version_without_a_jar_is_one_line(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAILRACE_SPARK", "4.4")
    with pytest.raises(SystemExit, match=r"tailrace: TAILRACE_SPARK is '4\.4'"):
        list(WheelBuilder(str(tree)).build(versions=["standard"]))
