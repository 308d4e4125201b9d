from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import tailrace
from tailrace.commands import doctor

FakeProgram = Callable[[str, str], Path]
MakeJar = Callable[..., Path]
RunPython = Callable[..., subprocess.CompletedProcess[str]]

JAVA_17 = "echo 'openjdk version \"17.0.15\" 2025-04-15' >&2"


@pytest.fixture
def sound(make_jar: MakeJar, fake_program: FakeProgram) -> dict[str, str]:
    """The environment of a machine on which every check passes."""
    make_jar()
    return {"PATH": str(fake_program("java", JAVA_17)), "SPARK_LOCAL_IP": "127.0.0.1"}


def failures(environ: dict[str, str]) -> dict[str, str]:
    found = doctor.findings(environ, with_session=False)
    return {finding.name: finding.detail for finding in found if not finding.ok}


def test_a_sound_machine_passes(sound: dict[str, str]) -> None:
    findings = list(doctor.findings(sound, with_session=False))
    assert [finding.name for finding in findings] == [
        *("java", "pyspark", "jar", "SPARK_HOME", "settings", "disk", "network")
    ]
    assert all(finding.ok for finding in findings)
    assert all(finding.line().startswith("ok ") for finding in findings)


def test_no_java(sound: dict[str, str], tmp_path: Path) -> None:
    assert "install a JDK 17" in failures({**sound, "PATH": str(tmp_path)})["java"]


def test_an_old_java(sound: dict[str, str], fake_program: FakeProgram) -> None:
    fake_program("java", "echo 'java version \"1.8.0_392\"' >&2")
    assert "1.8.0_392" in failures(sound)["java"]


def test_java_home_comes_before_the_path(sound: dict[str, str], tmp_path: Path) -> None:
    home = str(tmp_path / "gone")
    assert home in failures({**sound, "JAVA_HOME": home})["java"]


def test_another_pyspark(sound: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.__version__", "4.0.1")
    assert "pip install" in failures(sound)["pyspark"]


@pytest.mark.parametrize("other", [{"version": "0.0.1"}, {"spark": "4.0.1"}, {"scala": "2.12.20"}])
def test_a_jar_of_another_release(
    other: dict[str, str], make_jar: MakeJar, fake_program: FakeProgram
) -> None:
    make_jar(**other)
    environ = {"PATH": str(fake_program("java", JAVA_17)), "SPARK_LOCAL_IP": "127.0.0.1"}
    found = failures(environ)
    assert list(found) == ["jar"]
    assert next(iter(other.values())) in found["jar"]


def test_a_damaged_jar(sound: dict[str, str]) -> None:
    tailrace.jar_path().write_bytes(b"not a zip")
    assert "can't be read as a jar" in failures(sound)["jar"]


def test_spark_home_with_another_spark(sound: dict[str, str], tmp_path: Path) -> None:
    home = tmp_path / "spark"
    (home / "jars").mkdir(parents=True)
    (home / "jars" / "spark-core_2.13-3.5.1.jar").touch()
    assert "a Spark 3.5.1" in failures({**sound, "SPARK_HOME": str(home)})["SPARK_HOME"]


def test_spark_home_without_a_spark(sound: dict[str, str], tmp_path: Path) -> None:
    assert "holds no Spark" in failures({**sound, "SPARK_HOME": str(tmp_path)})["SPARK_HOME"]


def test_a_host_name_without_an_address(sound: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(name: str) -> str:
        raise OSError(f"{name} not known")

    monkeypatch.setattr("socket.gethostbyname", unknown)
    del sound["SPARK_LOCAL_IP"]
    assert "SPARK_LOCAL_IP=127.0.0.1" in failures(sound)["network"]


def test_an_address_of_no_interface(sound: dict[str, str]) -> None:
    told = failures({**sound, "SPARK_LOCAL_IP": "192.0.2.1"})["network"]
    assert told.startswith("SPARK_LOCAL_IP is 192.0.2.1, on which this machine can't listen (")
    assert "no-such-name" in failures({**sound, "SPARK_LOCAL_IP": "no-such-name"})["network"]


def test_a_disk_that_cannot_be_written(sound: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    place = str(tmp_path / "file")
    told = failures({**sound, "SPARK_LOCAL_DIRS": f"{tmp_path},{place}"})["disk"]
    assert told.startswith(f"Spark can't write its temporary files into {place} (")
    assert "set SPARK_LOCAL_DIRS to a directory" in told


def test_arguments_with_an_open_quotation(sound: dict[str, str]) -> None:
    told = failures({**sound, "PYSPARK_SUBMIT_ARGS": "--conf 'spark.app.name=x"})["settings"]
    assert "can't be split into words (No closing quotation)" in told


def test_the_report_tells_whether_all_is_well(
    sound: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.environ", sound)
    assert doctor.report(with_session=False)
    assert not capsys.readouterr().out.count("FAIL")
    monkeypatch.setattr("os.environ", {**sound, "PATH": ""})
    assert not doctor.report(with_session=False)
    assert capsys.readouterr().out.startswith("FAIL  java")


def test_the_command_on_this_machine_with_a_session(run_python: RunPython) -> None:
    done = run_python("-m", "tailrace", "doctor")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ok    session" in done.stdout


def test_the_jar_command_prints_a_path_alone(run_python: RunPython) -> None:
    done = run_python("-m", "tailrace", "jar")
    assert done.stdout == f"{tailrace.jar_path()}\n"
