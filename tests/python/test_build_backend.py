from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

if TYPE_CHECKING:
    from types import ModuleType

FakeProgram = Callable[[str, str], Path]

BACKEND = Path(__file__).resolve().parents[2] / "python" / "build_backend"

JAVA_17 = "echo 'openjdk version \"17.0.15\" 2025-04-15' >&2"
JAVA_11 = "echo 'openjdk version \"11.0.20\" 2023-07-18' >&2"


@pytest.fixture(scope="session")
def sbt(load_script: Callable[[str], ModuleType]) -> ModuleType:
    return load_script("python/build_backend/sbt.py")


def run_script(path: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    return subprocess.run(
        [sys.executable, str(BACKEND / "sbt.py"), "about"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**kept, "PATH": str(path), **environ},
    )


def test_a_missing_jdk_is_one_line(tmp_path: Path) -> None:
    done = run_script(tmp_path)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr == (
        "tailrace: Java wasn't found: install a JDK 17 or newer and put it on the PATH, or set JAVA_HOME "
        "to it.\n"
    )


def test_an_old_jdk_is_one_line(fake_program: FakeProgram) -> None:
    done = run_script(fake_program("java", JAVA_11))
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "Java 11.0.20" in done.stderr
    assert "install a JDK 17" in done.stderr


def test_a_java_home_without_java_is_one_line(fake_program: FakeProgram, tmp_path: Path) -> None:
    done = run_script(fake_program("java", JAVA_17), JAVA_HOME=str(tmp_path / "gone"))
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "JAVA_HOME" in done.stderr


def test_an_sbt_on_the_path_is_used(fake_program: FakeProgram) -> None:
    fake_program("sbt", 'echo "sbt got $*"; exit 3')
    done = run_script(fake_program("java", JAVA_17))
    assert done.returncode == 3
    assert done.stdout == "sbt got about\n"


def test_a_resolved_launcher_is_taken_from_the_cache(
    sbt: ModuleType, fake_program: FakeProgram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    environ = {"PATH": str(fake_program("java", JAVA_17)), "XDG_CACHE_HOME": str(tmp_path)}
    version = sbt.sbt_version(sbt.REPOSITORY / "project" / "build.properties")
    launcher = sbt.cache_directory(environ) / f"sbt-launch-{version}.jar"
    launcher.parent.mkdir(parents=True)
    launcher.touch()
    line = sbt.command(["test"], environ)
    assert line[0] == str(tmp_path / "bin" / "java")
    assert line[-3:] == ["-jar", str(launcher), "test"]


def test_a_failed_resolution_leaves_nothing_in_the_cache(
    sbt: ModuleType, fake_program: FakeProgram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    only_version = f'[ "$1" = -version ] && {{ {JAVA_17}; exit 0; }}; exit 1'
    environ = {"PATH": str(fake_program("java", only_version)), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    with pytest.raises(sbt.SbtError, match="couldn't resolve sbt's launcher"):
        sbt.command(["test"], environ)
    assert list(sbt.cache_directory(environ).iterdir()) == []


def test_ivy_is_found_in_pyspark(sbt: ModuleType) -> None:
    assert sbt._ivy_jar().is_file()


def test_build_properties_without_a_version_are_refused(sbt: ModuleType, tmp_path: Path) -> None:
    properties = tmp_path / "build.properties"
    properties.write_text("# nothing\n")
    with pytest.raises(sbt.SbtError, match=r"sbt\.version"):
        sbt.sbt_version(properties)


def test_the_hook_fails_before_it_builds(
    load_script: Callable[[str], ModuleType],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    module = load_script("python/build_backend/hatch_build.py")
    hook = object.__new__(module.JarBuildHook)
    hook._BuildHookInterface__app = None
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemExit) as stop:
        hook.initialize("standard", {"force_include": {}})
    assert stop.value.code == 1
    printed = capfd.readouterr()
    assert (printed.out + printed.err).count("\n") == 1
    assert "install a JDK 17" in printed.out + printed.err


@pytest.mark.parametrize(
    "changed",
    [
        "jvm/src/main/scala/A.scala",
        "jvm/src/main/scala/New.scala",
        "project/Versions.scala",
        "build.sbt",
        "NOTICE",
        "python/tailrace/_version.py",
        "jvm/target/t.jar",
    ],
)
def test_sbt_runs_again_if_a_source_or_the_jar_has_changed(
    changed: str, load_script: Callable[[str], ModuleType], tmp_path: Path
) -> None:
    jars = load_script("python/build_backend/jars.py")
    jar = tmp_path / "jvm/target/t.jar"
    sources = ("jvm/src/main/scala/A.scala", "project/Versions.scala", "build.sbt", "LICENSE", "NOTICE")
    for name in (*sources, "jvm/target/t.jar"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1")
    (tmp_path / "python/tailrace").mkdir(parents=True)
    (tmp_path / "python/tailrace/_version.py").write_text("1")
    assert not jars.is_current(jar, jars.digest(tmp_path))
    jars.note(jar, jars.digest(tmp_path))
    # What sbt itself writes there is no source.
    (tmp_path / "project/target").mkdir()
    (tmp_path / "project/target/x").write_text("1")
    assert jars.is_current(jar, jars.digest(tmp_path))
    (tmp_path / changed).write_text("2")
    assert not jars.is_current(jar, jars.digest(tmp_path))


def test_a_build_needs_pyspark_until_the_launcher_is_there(
    sbt: ModuleType, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("TAILRACE_SPARK", raising=False)

    def needed() -> list[str]:
        return [d for d in WheelBuilder(str(repository)).config.dependencies if d.startswith("pyspark")]

    assert needed() == ["pyspark>=4.2,<4.3"]
    version = sbt.sbt_version(repository / "project" / "build.properties")
    launcher = sbt.cache_directory(os.environ) / f"sbt-launch-{version}.jar"
    launcher.parent.mkdir(parents=True)
    launcher.touch()
    assert needed() == []


@pytest.mark.parametrize(("builder", "root"), [(WheelBuilder, ""), (SdistBuilder, "python/")])
def test_the_templates_of_pages_are_in_wheel_and_sdist(
    builder: type[WheelBuilder | SdistBuilder], root: str, repository: Path
) -> None:
    packed = {file.distribution_path for file in builder(str(repository)).recurse_included_files()}
    templates = {
        str(file.relative_to(repository / "python"))
        for file in repository.glob("python/tailrace/*/templates/*")
    }
    assert "tailrace/server/templates/page.html" in templates
    assert {root + name for name in templates} <= packed
