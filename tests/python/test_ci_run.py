"""`.ci/run` itself: what it does at the same time, and what it says of steps that fail."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

_NAMES = ("step", "together")
_HEAD = "set -euo pipefail\nunfinished=$(mktemp -d)\n"


@pytest.fixture
def functions(repository: Path) -> str:
    """Those of the script that run steps."""
    script = (repository / ".ci/run").read_text(encoding="utf-8")
    found = [re.search(rf"^{name}\(\) {{\n.*?^}}\n", script, re.MULTILINE | re.DOTALL) for name in _NAMES]
    return _HEAD + "".join(one[0] for one in found if one)


def _run(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = ["bash", "-c", script]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, timeout=60)


def _lines(done: subprocess.CompletedProcess[str]) -> list[str]:
    return [line for line in done.stdout.splitlines() if not line.startswith("====") and line]


def test_two_run_at_a_time_and_the_next_one_begins_when_one_has_ended(functions: str, tmp_path: Path) -> None:
    # Each waits for what another one leaves: one after the other, or three at a time, they would not end so.
    waits = "until [ -e {} ]; do sleep 0.05; done"
    body = f"""
one() {{ {waits.format("two")}; echo one; }}
two() {{ touch two; {waits.format("three")}; echo two; }}
three() {{ touch three; ls; echo three; }}
together one two three
echo after
"""
    done = _run(functions + body, tmp_path)
    assert done.returncode == 0, done.stderr
    assert _lines(done) == ["one", "two", "three", "two", "three", "after"]


def test_a_step_that_ended_before_it_was_waited_for_counts(functions: str, tmp_path: Path) -> None:
    # As bash's `wait -n` does now and then: it knows no such job.
    body = """
one() { echo one; }
two() { until [ -e late ]; do sleep 0.05; done; echo two; }
three() { exit 3; }
wait() {
  if [ "$1" = -n ] && [ ! -e told ]; then touch told; sleep 0.3; touch late; return 127; fi
  builtin wait "$@"
}
together one two || echo failed
rm told late
together three two || echo three has failed
"""
    done = _run(functions + body, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["one", "two", "two", "three has failed"]


def test_all_others_run_to_their_end_and_those_that_failed_are_told_last(
    functions: str, tmp_path: Path
) -> None:
    body = """
good() { step "a good step" true; sleep 0.3; echo good; }
bad() { step "a bad step" false; echo never; }
late() { echo late; }
together bad good late
echo never
"""
    done = _run(functions + body, tmp_path)
    assert done.returncode == 1
    assert _lines(done) == ["good", "late"]
    assert done.stdout.rstrip().endswith("==== a bad step")


def test_a_list_of_one_and_a_failure_alone(functions: str, tmp_path: Path) -> None:
    assert _lines(_run(functions + "one() { echo one; }\ntogether one\n", tmp_path)) == ["one"]
    assert _run(functions + "one() { return 3; }\ntogether one\n", tmp_path).returncode == 1
