"""The page about support marks each public name once."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any

import pytest

import tailrace

if TYPE_CHECKING:
    from pathlib import Path

PAGE = "docs/reference/support.md"


@pytest.fixture(scope="module")
def marks(repository: Path) -> dict[str, str]:
    """The mark of each name of the package."""
    text = (repository / PAGE).read_text(encoding="utf-8")
    table = text.split("### `tailrace`\n")[1].split("\n### ")[0]
    rows = re.findall(r"^\| (`.*) \| (.*) \|$", table, re.MULTILINE)
    named = [(name, mark) for names, mark in rows for name in re.findall(r"`(\w+)`", names)]
    assert len(dict(named)) == len(named)
    return dict(named)


def test_each_public_name_has_a_mark(marks: dict[str, str]) -> None:
    assert set(marks) == set(tailrace.__all__)
    for name, mark in marks.items():
        assert re.match(r"(stable|provisional)(;|$)", mark), name


def test_provisional_parts_of_stable_names_exist(marks: dict[str, str]) -> None:
    for name, mark in marks.items():
        if parts := set(re.findall(r"`(\w+)`", mark)):
            assert parts <= _parts(getattr(tailrace, name)), name


def _parts(public: Any) -> set[str]:  # noqa: ANN401  a function or a class
    """The parameters of a function; the methods of a class, and their parameters."""
    functions = vars(public) if inspect.isclass(public) else {"": public}
    methods = {name for name, function in functions.items() if callable(function)}
    return methods.union(*(inspect.signature(functions[name]).parameters for name in methods))


def test_the_versions_of_spark_are_those_that_there_are_jars_for(repository: Path) -> None:
    minors = re.findall(r'SparkMinor\("([\d.]+)"', (repository / "project/Versions.scala").read_text())
    rows = re.findall(r"^\| ([\d.]+) \| 0\.1 \|", (repository / PAGE).read_text(), re.MULTILINE)
    assert sorted(rows) == sorted(minors)
