"""Whatever a command is given, it ends with a documented exit code and an error of one line."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import uvicorn
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tailrace
from streams import Row, Streams
from tailrace._installation.user_settings import launch_settings
from tailrace.commands import cli, doctor, failures, java_program, local_session
from tailrace.commands.failures import EXIT_CODES
from tailrace.commands.state import of_options
from tailrace.demo import command as demo_command
from tailrace.demo import watermark as demo_watermark
from tailrace.errors import from_condition
from tailrace.server import logs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import ModuleType

    from pyspark.sql import SparkSession

    from tailrace.testing import StreamTest

    RunPython = Callable[..., subprocess.CompletedProcess[str]]
    Outcome = tuple[int, str, str]

OWN_SESSION = pytest.mark.classic("a command has a local session of its own")
_FEW, _MANY = 12, int(os.environ.get("TAILRACE_FAULTS", "2"))
# These say what they have found, of which a failure may be a part.
_REPORTS = {("doctor",), ("demo",), ("demo-watermark",)}


def _leaves(
    parser: argparse.ArgumentParser, name: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], argparse.ArgumentParser]]:
    children = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not children:
        yield name, parser
    for action in children:
        for command, child in action.choices.items():
            yield from _leaves(child, (*name, command))


COMMANDS = dict(_leaves(cli.command_line()))


def _texts(directory: Path) -> list[str]:
    """Files of wrong kinds, and texts that are no values."""
    files = {
        "empty": b"",
        "binary": bytes(range(256)),
        "damaged.parquet": b"PAR1" + b"\0" * 40 + b"\1\0\0\0PAR1",
        "damaged.json": b'{"a": [1, ',
        "latin": "f\u00fcr".encode("latin-1"),
        "lines": b"one\ntwo\n",
        "export/_tailrace_export.json": b"v1\n{}",
        "checkpoint/commits/0": b"v1\n{}",
        "checkpoint/offsets/0": b"\0",
        "12:00/[a]*/x y%20": b"",
    }
    for name, content in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(content)
    found = [str(directory / name) for name in (*files, "", "export", "checkpoint", "missing", "12:00/[a]*")]
    return [
        *found,
        *("", " ", "-", "0", "1", "7", "-1", "1e400", "nan", "1" * 30, "x", "a=b", "="),
        *("\u0664", "\u4e2d", "\udcff", "a" * 5000, "a\nb", "'", "\\", "2g", "1k", "10 s", "5M", "50%"),
        *("1/0 = user", "user = 'abc'", "SELECT 1"),
        *("http://127.0.0.1:1", "http://[", "ftp://x", "http://127.0.0.1:99999", "sqlite:///no/such/w.db"),
        *("127.0.0.1:0", "300.0.0.1:1", "4.3", "spark.master=nope", "spark.jars=\0"),
    ]


def _arguments(parser: argparse.ArgumentParser, texts: list[str]) -> st.SearchStrategy[list[str]]:
    """Command lines of a parser: each of its arguments is there or not, with any text for a value."""

    @st.composite
    def line(draw: st.DrawFn) -> list[str]:
        words: list[str] = []
        for action in parser._actions:
            if isinstance(action, argparse._HelpAction):
                continue
            value = draw(st.sampled_from([*map(str, action.choices or ()), *texts]))
            if not action.option_strings:
                words += [] if action.nargs == "?" and draw(st.booleans()) else [value]
            elif draw(st.integers(0, 9)) < (9 if action.required else 3):
                option = action.option_strings[-1]
                # With a sign of equality, so that the value is no option.
                bare = action.nargs == 0 or (action.nargs == "?" and draw(st.booleans()))
                words.append(option if bare else f"{option}={value}")
        return words

    return line()


def _check(name: tuple[str, ...], words: list[str], outcome: Outcome) -> None:
    code, out, err = outcome
    about = f"tailrace {' '.join(name)} {words!r} ended with {code}:\n{err[-3000:]}"
    assert code in EXIT_CODES, about
    assert "Traceback (most recent call last)" not in out + err, about
    told = [line for line in err.splitlines() if line.startswith("tailrace: ")]
    if code == 1 and name not in _REPORTS:
        assert len(told) == 1, about
        assert err.splitlines()[-1] == told[0], about


@pytest.fixture
def run_here(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Callable[[list[str]], Outcome]:
    """Runs commands in this process and in the session of all tests. No other process starts."""

    def session(*_: object) -> object:
        return nullcontext(request.getfixturevalue("spark"))

    def refused(*_: object, **__: object) -> Any:  # noqa: ANN401 - it gives nothing
        raise OSError(8, "Exec format error", "java")

    said = [
        SimpleNamespace(returncode=1, stdout=b"", stderr=b"Exception in thread main\n\tat x\n"),
        SimpleNamespace(returncode=0, stdout=b"[1", stderr=b""),
        SimpleNamespace(
            returncode=1, stdout=b'{"condition": "TAILRACE_X", "message": "m\\nn", "parameters": {}}'
        ),
    ]

    def java(*_: object, **__: object) -> object:
        said.append(said.pop(0))
        return said[0]

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(local_session, "local_session", session)
    monkeypatch.setattr(demo_watermark, "local_session", session)
    monkeypatch.setattr("tailrace.commands.java_program.subprocess.run", java)
    monkeypatch.setattr(java_program, "find_java", lambda _: SimpleNamespace(path="java"))
    monkeypatch.setattr(doctor, "find_java", lambda _: SimpleNamespace(path="java", version="17"))
    monkeypatch.setattr(doctor, "_check_session", refused)
    monkeypatch.setattr("tailrace.demo.process.subprocess.Popen", refused)
    monkeypatch.setattr(demo_command, "_ROWS", 100)
    monkeypatch.setattr(uvicorn.Server, "run", lambda *_, **__: None)
    monkeypatch.setattr(logs, "write_log", lambda _: None)
    monkeypatch.setattr(signal, "signal", lambda *_: None)

    def run(words: list[str]) -> Outcome:
        try:
            code = cli.main(words)
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
        return code, *capsys.readouterr()

    return run


@OWN_SESSION
@pytest.mark.parametrize("name", COMMANDS, ids=" ".join)
def test_any_command_line_ends_with_a_line_and_a_documented_code(
    name: tuple[str, ...], run_here: Callable[[list[str]], Outcome], tmp_path: Path
) -> None:
    @settings(max_examples=_FEW, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(_arguments(COMMANDS[name], _texts(tmp_path)))
    def check(words: list[str]) -> None:
        _check(name, words, run_here([*name, *words]))

    check()


def test_the_page_of_the_command_line_has_the_exit_codes(load_script: Callable[[str], ModuleType]) -> None:
    page = load_script("docs/generated.py")._command_line()
    assert all(f"\n| {code} | {meaning} |\n" in page for code, meaning in EXIT_CODES.items())


@pytest.mark.campaign
@pytest.mark.parametrize("name", COMMANDS, ids=" ".join)
def test_any_process_ends_with_a_line_and_a_documented_code(name: tuple[str, ...], tmp_path: Path) -> None:
    # What a command line can't have.
    texts = [text for text in _texts(tmp_path) if "\0" not in text]

    @settings(max_examples=_MANY, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(_arguments(COMMANDS[name], texts))
    def check(words: list[str]) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            # A server or a demo that has begun is no failure.
            done = subprocess.run(
                [sys.executable, "-m", "tailrace", *name, *words],
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                cwd=tmp_path,
                timeout=60,
            )
            _check(name, words, (done.returncode, done.stdout, done.stderr))

    check()


@pytest.mark.slow
@OWN_SESSION
def test_what_a_checkpoint_refuses_is_one_line(
    spark: SparkSession, stream_test: StreamTest, run_here: Callable[[list[str]], Outcome], tmp_path: Path
) -> None:
    streams = Streams(stream_test)
    with streams.query(streams.join()) as query:
        streams.add([Row(i, i % 4, i) for i in range(4)], [])
        query.run()
        query.stop()
        checkpoint, export = str(query.checkpoint), tmp_path / "export"
        tailrace.export_state(spark, checkpoint, export)
    for part in (export / "operator-0" / "left").glob("*.parquet"):
        part.write_bytes(b"PAR1" + b"\0" * 40)
    _texts(tmp_path)
    for words in (
        ["erase", checkpoint, "--where", "key = 'abc'"],
        ["erase", checkpoint, "--where", "1/0 = key"],
        ["erase", checkpoint, "--where", "key +"],
        ["erase", checkpoint, "--where", "nothing = 1"],
        ["erase", checkpoint, "--subjects", str(tmp_path / "binary")],
        ["erase", checkpoint, "--subjects", str(tmp_path / "damaged.parquet")],
        ["erase", checkpoint, "--subjects", str(tmp_path)],
        ["import", str(tmp_path / "new"), "--from", str(export)],
        ["export", checkpoint, "--to", str(export)],
        ["rescale", checkpoint, "--partitions", "1" + "0" * 12],
        ["rescale", "http://127.0.0.1:1/x", "--partitions", "2"],
    ):
        outcome = run_here(["state", *words])
        assert outcome[0] == 1, words
        _check(("state",), words, outcome)


@pytest.mark.slow
def test_the_program_of_a_command_says_one_line(run_python: RunPython, tmp_path: Path) -> None:
    for words in ([""], ["a:b"], ["http://127.0.0.1:1/x"], [str(tmp_path), "--version", "9" * 18]):
        done = run_python("-m", "tailrace", "inspect", *words)
        assert done.returncode == 1, done.stderr
        _check(("inspect",), words, (1, done.stdout, done.stderr))


def test_no_spark_where_spark_home_is(run_python: RunPython, tmp_path: Path) -> None:
    for command in (["inspect", "x"], ["state", "export", "x", "--to", "y"]):
        done = run_python("-m", "tailrace", *command, SPARK_HOME=str(tmp_path))
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == (
            f"tailrace: SPARK_HOME is {tmp_path}, which holds no Spark: unset SPARK_HOME.\n"
        )


def test_an_output_that_is_full() -> None:
    with open("/dev/full", "w", encoding="utf-8") as full:  # noqa: PTH123 - a device
        line = [sys.executable, "-m", "tailrace", "size", "--constants"]
        done = subprocess.run(line, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "tailrace: The output can't be written: no space is left on the device.\n"


def test_a_terminal_without_a_character(run_python: RunPython) -> None:
    done = run_python(
        "-c",
        "from tailrace.commands.failures import exit_code; exit(exit_code(lambda: print('\\u4e2d') or 0))",
        PYTHONIOENCODING="ascii",
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "\\u4e2d\n", "")


def test_settings_that_cannot_be_read(
    no_jvm: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (no_jvm / "spark-defaults.conf").write_bytes("spark.app.name f\u00fcr\n".encode("latin-1"))
    assert launch_settings(os.environ).defaults["spark.app.name"] == "f\ufffdr"
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--conf 'a")
    assert cli.main(["inspect", "x"]) == 1
    told = capsys.readouterr().err
    assert told.startswith("tailrace: PYSPARK_SUBMIT_ARGS can't be split into words (No closing quotation)")


def test_the_traceback_is_for_who_asks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails() -> int:
        raise ZeroDivisionError("by none\nbut zero")

    assert failures.exit_code(fails) == 1
    assert capsys.readouterr().err == "tailrace: by none (TAILRACE_DEBUG=1 shows where.)\n"
    monkeypatch.setenv("TAILRACE_DEBUG", "1")
    assert failures.exit_code(fails) == 1
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_a_client_of_spark_connect_lacks_what_a_command_needs(capsys: pytest.CaptureFixture[str]) -> None:
    def fails() -> int:
        raise ModuleNotFoundError("No module named 'py4j'", name="py4j")

    assert failures.exit_code(fails) == 1
    told = (
        "tailrace: The Python package py4j isn't installed, which this command needs: pip install pyspark.\n"
    )
    assert capsys.readouterr().err == told


def test_a_pipe_that_breaks_elsewhere_is_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    def fails() -> int:
        raise BrokenPipeError(32, "Broken pipe")

    assert failures.exit_code(fails) == 1
    assert capsys.readouterr().err == "tailrace: Broken pipe.\n"


def test_what_fails_after_an_interrupt_is_the_interrupt(capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted() -> int:
        try:
            raise KeyboardInterrupt
        finally:
            raise OSError("no JVM any more")

    assert failures.exit_code(interrupted) == 130
    assert capsys.readouterr().err == ""


@pytest.mark.campaign
@pytest.mark.parametrize(
    "options",
    [["--driver-memory", "1k"], ["--conf", "spark.master=nope"], ["--conf", "spark.driver.port=x"]],
)
def test_a_spark_that_does_not_start(run_python: RunPython, options: list[str], tmp_path: Path) -> None:
    done = run_python("-m", "tailrace", "state", "export", "x", "--to", str(tmp_path / "y"), *options)
    assert done.returncode == 1
    _check(("state",), options, (1, done.stdout, done.stderr))


@pytest.mark.campaign
def test_an_interrupted_command_is_quiet(tmp_path: Path) -> None:
    code = """import sys, time
from tailrace import exchanging
from tailrace.commands import cli, local_session
exchanging.export_state = lambda spark, *_, **__: (
    print("begun", flush=True),
    spark.sql("SELECT count(*) FROM range(1000000) a, range(1000000) b").collect(),
)
sys.exit(cli.main(["state", "export", "x", "--to", "y"]))"""
    command = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        start_new_session=True,
    )
    assert command.stdout is not None
    assert command.stdout.readline() == "begun\n"
    deadline = time.monotonic() + 60
    while command.poll() is None and time.monotonic() < deadline:
        # As a terminal does: to the whole group.
        os.killpg(command.pid, signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            command.wait(20)
    _, err = command.communicate()
    assert command.returncode == 130, err
    assert "Traceback" not in err, err


def test_a_refusal_names_the_option_and_not_the_argument() -> None:
    text = "`operators` of tailrace.erase is '9'. It has to be one of 0. Set `operators` to such a value."
    named = {"call": "tailrace.erase", "argument": "operators", "value": "9"}
    error = of_options(from_condition("TAILRACE_OPTION_INVALID", text, named), "tailrace state erase")
    assert str(error).startswith("[TAILRACE_OPTION_INVALID] `--operator` of `tailrace state erase` is '9'.")
    assert "`operators`" not in str(error)
    assert error.parameters == named
    other = from_condition("TAILRACE_STATE_IN_USE", "The checkpoint is in use.", {"path": "p"})
    assert of_options(other, "tailrace state erase") is other
