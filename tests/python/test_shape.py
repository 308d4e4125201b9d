"""`dev/shape.py`: the arrows between Scala files, and the limits of their shape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import ModuleType


@pytest.fixture(scope="module")
def shape(load_script: Callable[[str], ModuleType]) -> Any:  # noqa: ANN401
    return load_script("dev/shape.py")


def test_the_sources_meet_the_limits(shape: Any, repository: Path) -> None:  # noqa: ANN401
    assert shape.faults(shape.measure(repository), shape.limits(repository)) == []


def _sources(tmp_path: Path, **files: str) -> Path:
    """Files of package `a`, or of `b` if their names begin with it; each has a class of its name."""
    for name, code in files.items():
        package = "b" if name.startswith("B") else "a"
        file = tmp_path / f"jvm/src/main/scala/io/tailrace/{package}/{name}.scala"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"package io.tailrace.{package}\n\n{code}\n")
    page = tmp_path / "jvm/docs/architecture.md"
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(
        "# Architecture\n\n## A walk\n\n`a/One.scala` asks `a/Two.scala`, and `a/One.scala` answers.\n"
    )
    return tmp_path


def _limited(tmp_path: Path, files: int = 9, one_user: int = 9, walk: int = 9, cycle: str = "") -> Path:
    (tmp_path / "dev").mkdir()
    listed = f"\n[[cycle]]\nfiles = [{', '.join(repr(name) for name in cycle.split())}]\n" if cycle else ""
    (tmp_path / "dev/shape.toml").write_text(
        f"files = {files}\nlines_of_a_file = 600\none_user = {one_user}\n[walks]\n'A walk' = {walk}\n{listed}"
    )
    return tmp_path


def _arrows(shape: Any, tmp_path: Path, **files: str) -> dict[str, set[str]]:  # noqa: ANN401
    return {name: set(used) for name, used in shape.measure(_sources(tmp_path, **files)).arrows.items()}


@pytest.mark.parametrize(
    "code",
    [
        "class One(two: Two)",
        "object One { import Two._ }",
        'object One { def text = s"${Two.name}" }',
        'object One { val url = "http://a"; val two = Two }',
    ],
)
def test_a_name_of_the_package_is_an_arrow(shape: Any, tmp_path: Path, code: str) -> None:  # noqa: ANN401
    assert _arrows(shape, tmp_path, One=code, Two="object Two")["a/One"] == {"a/Two"}


@pytest.mark.parametrize(
    "code",
    [
        "class One // of Two",
        "/** See [[Two]]. */\nclass One",
        'class One { val text = "Two" }',
        "class One { val kind = Kind.Two }",
        "class One { private object Two }",
        "import org.other.Two\nclass One(two: Two)",
    ],
)
def test_a_name_that_means_something_else_is_none(shape: Any, tmp_path: Path, code: str) -> None:  # noqa: ANN401
    assert _arrows(shape, tmp_path, One=code, Two="object Two", Kind="object Kind")["a/One"] <= {"a/Kind"}


@pytest.mark.parametrize(
    "imported", ["io.tailrace.b.Base", "io.tailrace.b.{Base, BOther}", "io.tailrace.b._"]
)
def test_an_import_of_another_package_is_an_arrow(shape: Any, tmp_path: Path, imported: str) -> None:  # noqa: ANN401
    one = f"import {imported}\n\nclass One extends Base"
    assert _arrows(shape, tmp_path, One=one, Base="class Base", BOther="class BOther")["a/One"] >= {"b/Base"}


_RING = {"One": "class One(two: Two)", "Two": "class Two(three: Three)", "Three": "class Three(one: One)"}


def _faults(shape: Any, repository: Path) -> list[str]:  # noqa: ANN401
    return list(shape.faults(shape.measure(repository), shape.limits(repository)))


def test_a_new_cycle_fails(shape: Any, tmp_path: Path) -> None:  # noqa: ANN401
    repository = _limited(_sources(tmp_path, **_RING))
    assert _faults(shape, repository) == ["files form a cycle: a/One a/Three a/Two"]


def test_a_listed_cycle_may_shrink_and_must_not_grow(shape: Any, tmp_path: Path) -> None:  # noqa: ANN401
    repository = _limited(_sources(tmp_path, **_RING), cycle="a/One a/Two a/Three")
    assert _faults(shape, repository) == []
    _sources(tmp_path, Two="class Two(three: Three, four: Four)", Four="class Four(one: One)")
    assert _faults(shape, repository) == ["files form a cycle: a/Four a/One a/Three a/Two"]
    _sources(tmp_path, Two="class Two(one: One)", Four="class Four")
    assert _faults(shape, repository) == [
        "no longer in a cycle, take them out of dev/shape.toml (--lower): a/Three"
    ]
    assert shape.main(["--lower"], repository) == 0
    assert shape.limits(repository).cycles == [frozenset({"a/One", "a/Two"})]


@pytest.mark.parametrize(
    ("limit", "text"),
    [
        ({"files": 2}, "3 files, at most 2"),
        ({"one_user": 1}, "2 files have exactly one user, at most 1: a/One <- a/Two; a/Three <- a/One"),
        ({"walk": 1}, "the walk 'A walk' of jvm/docs/architecture.md leads through 2 files, at most 1"),
    ],
)
def test_more_than_a_limit_fails(shape: Any, tmp_path: Path, limit: dict[str, Any], text: str) -> None:  # noqa: ANN401
    files = {"One": "class One(three: Three)", "Two": "class Two(one: One)", "Three": "class Three"}
    repository = _limited(_sources(tmp_path, **files), **limit)
    assert [fault for fault in _faults(shape, repository) if fault.startswith(text)]
    assert shape.main([], repository) == 1


def test_a_file_over_600_lines_fails(shape: Any, tmp_path: Path) -> None:  # noqa: ANN401
    repository = _limited(_sources(tmp_path, One="class One\n" * 598))
    assert _faults(shape, repository) == ["a/One has 601 lines, at most 600: split it by thought"]


def test_lowered_limits_never_rise(shape: Any, tmp_path: Path) -> None:  # noqa: ANN401
    repository = _limited(_sources(tmp_path, **_RING), files=2)
    assert shape.main(["--lower"], repository) == 1
    lowered = shape.limits(repository)
    assert (lowered.files, lowered.one_user, lowered.walks, lowered.cycles) == (2, 3, {"A walk": 2}, [])
