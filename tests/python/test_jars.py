"""Which jar is for which Spark."""

from __future__ import annotations

import shutil
import sys
import time
import zipfile
from importlib.metadata import PathDistribution
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest

import tailrace
from tailrace import TailraceSessionError, TailraceVersionError
from tailrace._installation import jar_patch
from tailrace.commands import cli

if TYPE_CHECKING:
    from collections.abc import Callable

VERSION = tailrace.__version__


@pytest.fixture(autouse=True)
def jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation with jars for two minor versions, and what else may lie there."""
    for name in (f"spark4.9_2.13-{VERSION}", f"spark4.10_2.13-{VERSION}", "spark4.3_2.13-0.0.1", VERSION):
        (tmp_path / f"tailrace-{name}.jar").touch()
    monkeypatch.setattr("tailrace._installation.jar._FOLDER", tmp_path)
    monkeypatch.setattr(pyspark, "__version__", "4.10.2")
    return tmp_path


def test_the_pyspark_that_is_installed_decides(jars: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert tailrace.jar_path() == jars / f"tailrace-spark4.10_2.13-{VERSION}.jar"
    monkeypatch.setattr(pyspark, "__version__", "4.9.0")
    assert tailrace.jar_path() == jars / f"tailrace-spark4.9_2.13-{VERSION}.jar"


@pytest.mark.parametrize("spark", ["4.9", "4.9.7"])
def test_that_of_another_spark(jars: Path, spark: str) -> None:
    assert tailrace.jar_path(spark) == jars / f"tailrace-spark4.9_2.13-{VERSION}.jar"


def test_a_spark_without_a_jar_is_refused_with_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TailraceVersionError) as asked:
        tailrace.jar_path("4.3")
    assert str(asked.value) == (
        "Spark 4.3 is asked for, and this installation of tailrace has jars for Spark 4.9, 4.10: run "
        "TAILRACE_SPARK=4.9,4.10,4.3 pip install . in a clone of tailrace."
    )
    monkeypatch.setattr(pyspark, "__version__", "4.3.0")
    with pytest.raises(
        TailraceVersionError,
        match=r"^pyspark 4\.3\.0 is installed, .*: run pip install .pyspark==4\.10\.\*., or TAILRACE_SPARK=",
    ):
        tailrace.jar_path()


def test_no_jar_at_all(jars: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tailrace._installation.jar._FOLDER", jars / "none")
    with pytest.raises(TailraceSessionError, match="has no jar"):
        tailrace.jar_path("4.3")


def test_the_commands_say_which(
    jars: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == (
        f"tailrace {VERSION}, with jars for Spark 4.9, 4.10\n"
        f"pyspark 4.10.2 takes tailrace-spark4.10_2.13-{VERSION}.jar\n"
    )
    assert cli.main(["jar", "--spark", "4.9.3"]) == 0
    assert capsys.readouterr().out == f"{jars / f'tailrace-spark4.9_2.13-{VERSION}.jar'}\n"
    assert cli.main(["connect-conf", "--spark", "4.9"]) == 0
    assert capsys.readouterr().out.startswith(
        f"--jars {jars / f'tailrace-spark4.9_2.13-{VERSION}.jar'}\n--conf "
    )
    monkeypatch.setattr(pyspark, "__version__", "4.3.0")
    assert cli.main(["--version"]) == 1
    told = capsys.readouterr()
    assert told.out == f"tailrace {VERSION}, with jars for Spark 4.9, 4.10\n"
    assert told.err.startswith("tailrace: pyspark 4.3.0 is installed, and")


@pytest.fixture
def patched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation with a jar for Spark 4.1 and a patch for 4.3; returns its folder."""
    folder = tmp_path / "patched"
    folder.mkdir()
    for minor in ("4.1", "4.3"):
        with zipfile.ZipFile(tmp_path / f"{minor}.jar", "w") as jar:
            jar.writestr("META-INF/MANIFEST.MF", minor)
            jar.writestr("Common.class", "the same")
    base = folder / f"tailrace-spark4.1_2.13-{VERSION}.jar"
    shutil.copy(tmp_path / "4.1.jar", base)
    jar_patch.write(base, tmp_path / "4.3.jar", folder / f"tailrace-spark4.3_2.13-{VERSION}.patch")
    monkeypatch.setattr("tailrace._installation.jar._FOLDER", folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "platform", "linux")
    return folder


def manifest(jar: Path) -> str:
    with zipfile.ZipFile(jar) as archive:
        return archive.read("META-INF/MANIFEST.MF").decode()


def test_what_is_no_version_of_spark(patched: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert patched.is_dir()
    for wrong in ("foo", "4", "", "4.x"):
        assert cli.main(["jar", f"--spark={wrong}"]) == 1
        told = capsys.readouterr().err
        assert told.startswith(f"tailrace: {wrong!r} is no version of Spark: write one such as ")
        assert told.endswith("has jars for Spark 4.1, 4.3.\n")


def test_pip_knows_the_jars_that_were_made(
    patched: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site"
    folder, info = site / "tailrace" / "jars", site / f"tailrace-{VERSION}.dist-info"
    info.mkdir(parents=True)
    shutil.copytree(patched, folder)
    record = info / "RECORD"
    record.write_text(f"{info.name}/METADATA,,\n{info.name}/RECORD,,\n")
    (info / "METADATA").write_text(f"Name: tailrace\nVersion: {VERSION}\n")
    monkeypatch.setattr("tailrace._installation.jar._FOLDER", folder)
    monkeypatch.setattr("tailrace._installation.jar.distribution", lambda _: PathDistribution(info))
    made = tailrace.jar_path("4.3")
    assert tailrace.jar_path("4.3") == made
    line = f"{made.relative_to(site).as_posix()},,"
    assert record.read_text().splitlines() == [f"{info.name}/METADATA,,", f"{info.name}/RECORD,,", line]


def test_a_jar_whose_path_a_shell_would_split(
    patched: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tailrace._installation.jar._FOLDER", patched.rename(tmp_path / "with a blank"))
    assert cli.main(["connect-conf", "--spark", "4.1"]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("tailrace: The path of the jar has a blank, at which a shell splits")


def test_a_jar_is_made_once_and_again_for_another_installation(patched: Path) -> None:
    first = tailrace.jar_path("4.3")
    assert first.name == f"tailrace-spark4.3_2.13-{VERSION}.jar"
    assert first.parent.parent == patched
    assert manifest(first) == "4.3"
    made = first.stat().st_mtime_ns
    assert tailrace.jar_path("4.3") == first
    assert first.stat().st_mtime_ns == made
    assert [file.name for file in first.parent.iterdir()] == [first.name], "nothing temporary is left"
    # The same version, built anew: the jar of before isn't taken.
    base = tailrace.jar_path("4.1")
    with zipfile.ZipFile(base, "a") as jar:
        jar.writestr("New.class", "new")
    with pytest.raises(TailraceSessionError, match="is of another jar than"):
        tailrace.jar_path("4.3")
    shutil.copy(base, first)
    jar_patch.write(base, first, patched / f"tailrace-spark4.3_2.13-{VERSION}.patch")
    again = tailrace.jar_path("4.3")
    assert again != first
    with zipfile.ZipFile(again) as jar:
        assert "New.class" in jar.namelist()


@pytest.mark.usefixtures("patched")
def test_a_jar_that_was_cut_off_is_made_again() -> None:
    jar = tailrace.jar_path("4.3")
    whole = jar.read_bytes()
    for length in (0, len(whole) - 10):
        jar.write_bytes(whole[:length])
        assert tailrace.jar_path("4.3") == jar
        assert manifest(jar) == "4.3"


def test_each_damage_of_a_patch_is_told(patched: Path) -> None:
    """Or is none: bits of a time that nobody reads."""
    (patch,) = patched.glob("*.patch")
    whole = patch.read_bytes()
    right = manifest(tailrace.jar_path("4.3"))
    refused: list[str] = []
    for byte in range(len(whole)):
        patch.write_bytes(whole[:byte] + bytes([whole[byte] ^ 8]) + whole[byte + 1 :])
        try:
            assert manifest(tailrace.jar_path("4.3")) == right
        except TailraceSessionError as error:
            refused.append(str(error))
    assert len(refused) > len(whole) / 2
    assert all("is damaged" in text for text in refused)


def test_the_manifest_is_in_front_though_it_is_the_same(tmp_path: Path) -> None:
    for name, bridge in (("base", "old"), ("jar", "new")):
        with zipfile.ZipFile(tmp_path / name, "w") as jar:
            jar.writestr("META-INF/MANIFEST.MF", "the same")
            jar.writestr("Bridge.class", bridge)
    jar_patch.write(tmp_path / "base", tmp_path / "jar", tmp_path / "patch")
    made = jar_patch.apply(tmp_path / "base", tmp_path / "patch", "made.jar", [tmp_path])
    with zipfile.ZipFile(made) as jar:
        assert jar.namelist() == ["META-INF/MANIFEST.MF", "Bridge.class"]
        assert jar.read("Bridge.class") == b"new"


def test_a_patch_has_no_time_of_its_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("base", "jar"):
        with zipfile.ZipFile(tmp_path / name, "w") as jar:
            jar.writestr("META-INF/MANIFEST.MF", name)
    patches: list[bytes] = []
    for seconds in (1_700_000_000, 1_800_000_000):
        monkeypatch.setattr(time, "time", lambda seconds=seconds: float(seconds))
        jar_patch.write(tmp_path / "base", tmp_path / "jar", tmp_path / "patch")
        patches.append((tmp_path / "patch").read_bytes())
    assert patches[0] == patches[1]


def refuse_writing(monkeypatch: pytest.MonkeyPatch, refused: Callable[[Path], bool]) -> None:
    # The tests may run as root, whom no mode of a folder refuses.
    mkdir = Path.mkdir

    def guarded(self: Path, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        if refused(self):
            raise PermissionError(13, "Permission denied", str(self))
        mkdir(self, mode, parents, exist_ok)

    monkeypatch.setattr(Path, "mkdir", guarded)


def test_a_folder_that_cant_be_written_to_leaves_it_to_the_cache(
    patched: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_writing(monkeypatch, lambda path: patched in path.parents)
    jar = tailrace.jar_path("4.3")
    assert tmp_path / "cache" / "tailrace" / "jars" in jar.parents
    assert manifest(jar) == "4.3"


def test_no_folder_at_all_is_refused_with_the_cure(patched: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_writing(monkeypatch, lambda _: True)
    with pytest.raises(TailraceSessionError, match=r"can't be written, .*: set XDG_CACHE_HOME"):
        tailrace.jar_path("4.3")
    assert tailrace.jar_path("4.1").parent == patched, "that of the wheel is there as it is"


@pytest.mark.parametrize("damaged", ["spark4.1_2.13-{}.jar", "spark4.3_2.13-{}.patch"])
def test_a_damaged_file_is_refused_by_its_name(patched: Path, damaged: str) -> None:
    file = patched / f"tailrace-{damaged.format(VERSION)}"
    file.write_bytes(file.read_bytes()[:-30])
    with pytest.raises(TailraceSessionError, match=r"is damaged .*: pip install --force-reinstall"):
        tailrace.jar_path("4.3")
    assert not list(patched.glob("*/*")), "nothing half made"
