"""The table of what runs where, and what runs in classic sessions alone."""

from __future__ import annotations

import ast
import json
from typing import TYPE_CHECKING

import pytest

import parity_table
from parity import names
from parity_table import REASONS, Run, page, runs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import ModuleType


def test_the_page_is_made_of_the_results() -> None:
    assert parity_table.PAGE.read_text() == page(runs())


def test_there_is_a_run_of_each_mode_on_each_version(load_script: Callable[[str], ModuleType]) -> None:
    minors = load_script("python/build_backend/sparks.py").versions()
    assert sorted((run.spark, run.mode) for run in runs()) == [
        (minor, mode) for minor in sorted(minors) for mode in ("classic", "connect")
    ]


@pytest.mark.parametrize("run", runs(), ids=lambda run: f"{run.mode} {run.spark}")
def test_each_public_name_is_used_or_has_a_reason(run: Run) -> None:
    assert run.left_out() == []


def test_reasons_are_of_names_that_no_run_uses() -> None:
    used = {(run.mode, name) for run in runs() for name in run.used}
    assert REASONS.keys() & used == set()
    assert {name for _, name in REASONS} <= set(names())


def test_a_run_that_leaves_a_name_out_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    used = [name for name in names() if name != "tailrace.erase"]
    file = tmp_path / "run.json"
    file.write_text(json.dumps({"spark": "9.9", "mode": "classic", "tests": 1, "used": used}))
    assert parity_table.main([str(file)]) == 1
    assert "tailrace.erase" in capsys.readouterr().out


def _classic_marks(repository: Path) -> Iterator[tuple[str, ast.expr | None]]:
    """The arguments of all marks, and where they are."""
    for file in (repository / "tests").rglob("test_*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Attribute) and ast.unparse(node) == "pytest.mark.classic":
                yield f"{file.name}:{node.lineno}", None
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.classic":
                yield f"{file.name}:{node.lineno}", node.args[0] if node.args else None


def test_what_runs_in_classic_sessions_alone_says_why(repository: Path) -> None:
    reasons: dict[str, list[str]] = {}
    for place, argument in _classic_marks(repository):
        found = reasons.setdefault(place, [])
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
            found.append(argument.value)
    assert reasons
    assert [place for place, found in reasons.items() if not found or min(map(len, found)) < 20] == []
