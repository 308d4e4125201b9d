"""What the commands print on a terminal, with rich and without it, and into a pipe."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tailrace.commands import cli, failures, task_bar, terminal
from tailrace.errors import TailraceError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

SIZE = ["size", "--left", "20k", "--right", "10k", "--row-bytes", "500", "--after", "30 min"]
TABLE = terminal.Table(("host", "rows"), [("web-1", "7"), ("[red]web-2", "1,200")], frozenset({1}), indent=2)
PLAIN = """\
first
  host         rows
  web-1           7
  [red]web-2  1,200
name   text
longer
"""


def _show() -> None:
    terminal.show_parts(["first", TABLE, terminal.Pairs([("name", "text"), ("longer", "")], 7)])


def _on_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """The standard output is one, of 60 columns. No fixture: what that patches isn't the test's."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.delenv("NO_COLOR", raising=False)


def _seen(capsys: pytest.CaptureFixture[str]) -> str:
    """What stands there when the terminal has obeyed colours and the like."""
    return re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", capsys.readouterr().out)


def check_plain(capsys: pytest.CaptureFixture[str]) -> None:
    """What is shown is the plain text, and there is no bar."""
    _show()
    with terminal.bar("joining") as reached:
        reached(1, 2)
    assert capsys.readouterr().out == PLAIN


def test_a_pipe_gets_plain_text_although_rich_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    check_plain(capsys)


def test_a_terminal_without_rich_gets_the_same(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _on_terminal(monkeypatch)
    monkeypatch.setattr(terminal, "find_spec", lambda _name: None)
    check_plain(capsys)


def test_a_terminal_with_rich_gets_tables(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _on_terminal(monkeypatch)
    _show()
    lines = [line.split() for line in _seen(capsys).splitlines()]
    cells = [["host", "rows"], ["web-1", "7"], ["[red]web-2", "1,200"], ["name", "text"], ["longer"]]
    assert [line for line in lines if line in cells] == cells
    assert any(set("".join(line)) == {"─"} for line in lines), "the head is underlined"


def test_a_terminal_with_rich_gets_a_bar_below_what_is_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _on_terminal(monkeypatch)
    with terminal.bar("joining") as reached:
        print("batch 7")
        reached(1, 2)
    seen = _seen(capsys)
    assert "batch 7\n" in seen
    assert re.search(r"joining ━+[^\n]* 50%", seen)


def test_a_table_wider_than_the_terminal_is_plain(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _on_terminal(monkeypatch)
    monkeypatch.setenv("COLUMNS", "40")
    names = ("an-operator-with-a-name-of-many-letters", "another-of-many-letters")
    terminal.show_parts([terminal.Table(("one", "other"), [names])])
    assert "  ".join(names) in _seen(capsys).splitlines()


def test_long_texts_go_on_below_themselves(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _on_terminal(monkeypatch)
    assert cli.main(SIZE) == 0
    on_terminal = _seen(capsys)
    assert all(len(line) <= 60 for line in on_terminal.splitlines())
    assert on_terminal.startswith("rows ")


@pytest.mark.parametrize("is_terminal", [False, True])
def test_a_command_in_a_real_terminal(is_terminal: bool) -> None:
    controller, end = pty.openpty()
    environ = {**os.environ, "COLUMNS": "60", "TERM": "xterm"}
    try:
        command = subprocess.Popen(
            [sys.executable, "-m", "tailrace", *SIZE],
            stdout=end if is_terminal else subprocess.PIPE,
            env=environ,
        )
        os.close(end)
        printed = _until_the_end(controller) if is_terminal else command.communicate()[0]
        assert command.wait() == 0
    finally:
        os.close(controller)
    assert (b"\x1b[1m" in printed) is is_terminal
    assert (max(map(len, printed.decode().splitlines())) > 100) is not is_terminal


def _until_the_end(controller: int) -> bytes:
    parts: list[bytes] = []
    while True:
        try:
            part = os.read(controller, 4096)
        except OSError:  # Linux says so that nobody writes any more
            part = b""
        if not part:
            return b"".join(parts)
        parts.append(part)


@pytest.mark.campaign
@pytest.mark.classic("the bar follows jobs of this process: a command line has a classic session")
def test_the_tasks_of_a_job_move_the_bar(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    _on_terminal(monkeypatch)
    told: list[tuple[int, int]] = []

    @contextmanager
    def bar(what: str) -> Iterator[terminal.Reached]:
        assert what == "rescaling"
        yield lambda done, all_: told.append((done, all_))

    monkeypatch.setattr(terminal, "bar", bar)
    with task_bar.task_bar(spark, "rescaling"):
        spark.sparkContext.parallelize(range(6), 6).foreach(lambda _: time.sleep(0.4))
    assert {all_ for _, all_ in told} == {6}
    assert len({done for done, _ in told}) > 1
    assert sorted(told) == told


@pytest.mark.campaign
@pytest.mark.classic("the bar follows jobs of this process: a command line has a classic session")
def test_where_there_is_no_bar_lines_on_the_standard_error_say_it(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(task_bar, "_LINES", 0.5)
    with task_bar.task_bar(spark, "erasing"):
        spark.sparkContext.parallelize(range(6), 6).foreach(lambda _: time.sleep(0.4))
    told = capsys.readouterr()
    assert told.out == ""
    assert re.fullmatch(r"(erasing: \d of 6 tasks, \d s\n)+", told.err)


@pytest.mark.parametrize("rich", [False, True])
def test_a_name_moves_no_cursor_and_turns_no_line_around(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, rich: bool
) -> None:
    _on_terminal(monkeypatch)
    if not rich:
        monkeypatch.setattr(terminal, "find_spec", lambda _name: None)
    turned = "web\u202e1\x1b[31m\r\n2"
    terminal.show_parts(
        [turned, terminal.Table(("host",), [(turned,)]), terminal.Pairs([("name", turned)], 7)]
    )
    seen = _seen(capsys)
    assert not {"\u202e", "\r", "\x1b"} & {*seen}
    assert seen.count(r"web\u202e1\x1b[31m\x0d") == 3
    assert r"\x0d\n2" in seen, "a cell stays in its line"


def test_an_error_moves_no_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    def command() -> int:
        raise TailraceError("the host web\u202e1\x1b[31m is late")

    assert failures.exit_code(command) == 1
    assert capsys.readouterr().err == "tailrace: the host web\\u202e1\\x1b[31m is late\n"
