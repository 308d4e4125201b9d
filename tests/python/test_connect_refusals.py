"""What is refused over Spark Connect, against a classic session; and commands where a server is named."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import refused_calls

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    from connect_server import ConnectServer

    RunPython = Callable[..., subprocess.CompletedProcess[str]]

Refusals = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def refusals(
    connect_server: ConnectServer, tmp_path_factory: pytest.TempPathFactory, run_python: RunPython
) -> tuple[Refusals, Refusals]:
    """What is said of each call in a classic session, and over Spark Connect."""
    folder = str(tmp_path_factory.mktemp("refused"))

    def of(*address: str) -> Refusals:
        done = run_python(refused_calls.__file__, folder, *address)
        assert done.returncode == 0, done.stderr
        return {found["call"]: found for found in map(json.loads, done.stdout.splitlines())}

    return of(), of(connect_server.address)


@pytest.mark.campaign
@pytest.mark.parametrize("call", refused_calls.CALLS)
def test_a_refusal_is_the_same_in_both_kinds_of_sessions(
    refusals: tuple[Refusals, Refusals], call: str
) -> None:
    classic, connect = (of[call] for of in refusals)
    assert classic["kind"].startswith("Tailrace"), classic["text"]
    if call in refused_calls.SHOWN_BY_SPARK:
        for one in (classic, connect):
            del one["text"], one["parameters"]["expression"]
    assert connect == classic


@pytest.mark.campaign
def test_a_command_has_a_session_of_its_own(run_python: RunPython, tmp_path: Path) -> None:
    """Whatever server the shell names, it reads the checkpoint where it is called."""
    erase = ("-m", "tailrace", "state", "erase", str(tmp_path), "--where", "user = 7")
    done = run_python(*erase, SPARK_REMOTE="sc://127.0.0.1:1")
    assert done.returncode == 1
    assert "[TAILRACE_CHECKPOINT_NOT_FOUND]" in done.stderr
