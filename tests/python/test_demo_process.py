"""The demo's query in a process of its own: how it ends, and that nothing is left of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tailrace.demo import data
from tailrace.demo.process import QueryProcess
from tailrace.demo.query import Engine
from tailrace.errors import TailraceError
from waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path


def running_groups() -> set[int]:
    """Process groups with a process that runs. One that was killed may stay in the table for a while."""
    listed = subprocess.run(["/bin/ps", "-eo", "pgid=,stat="], capture_output=True, text=True, check=True)
    rows = (line.split() for line in listed.stdout.splitlines())
    return {int(group) for group, state in rows if not state.startswith("Z")}


@pytest.mark.campaign
def test_a_query_that_ends_early_is_told(tmp_path: Path) -> None:
    # There are no streams, so that Spark refuses the query.
    with (
        QueryProcess(tmp_path, "1g", Engine.TAILRACE) as process,
        pytest.raises(TailraceError, match="exit code 1"),
    ):
        list(process.progress())


@pytest.mark.campaign
def test_a_worker_that_is_left_is_killed_with_its_spark(tmp_path: Path) -> None:
    data.generate(tmp_path, rows=2_000, slices=4)
    with QueryProcess(tmp_path, "1g", Engine.TAILRACE) as process:
        next(process.progress())
        group = process.group
    wait_for(lambda: group not in running_groups(), "the end of the worker and its Spark", 10)


@pytest.mark.campaign
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_demo_that_is_stopped_leaves_nothing(number: signal.Signals, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tailrace", "demo", "--rows", "3000", "--out", str(tmp_path / "out")]
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    pipe = subprocess.PIPE
    environ = {**os.environ, "TMPDIR": str(scratch)}
    # A shell's background jobs ignore it, and so would what they start.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        demo = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environ)
    finally:
        signal.signal(signal.SIGINT, before)
    with demo:
        assert demo.stdout
        assert demo.stderr
        # The worker begins now.
        next(line for line in demo.stdout if line.startswith("batch"))
        demo.send_signal(number)
        assert demo.wait(30) == 128 + number
        assert "Traceback" not in demo.stderr.read()
    assert list(scratch.iterdir()) == []


@pytest.mark.campaign
def test_a_worker_ends_with_the_process_that_has_started_it(tmp_path: Path) -> None:
    code = f"""import time
from pathlib import Path
from tailrace.demo.process import QueryProcess
from tailrace.demo.query import Engine
print(QueryProcess(Path({str(tmp_path)!r}), "1g", Engine.TAILRACE).group, flush=True)
time.sleep(600)"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        group = int(parent.stdout.readline())
        assert group in running_groups()
        parent.kill()
    wait_for(lambda: group not in running_groups(), "the end of the worker and its Spark", 30)
