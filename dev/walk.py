"""A newcomer's first four projects, where Tailrace was installed from an index: `dev/rehearse.py` runs them.

They are those of the documentation: training examples with several labels in two runs, hours that two
queries and the watermark server complete, a month of history that goes live, and tests of one's own
pipeline. The programs have to print what their pages show. Standard library only.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pages

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

# The extra of the tutorial about two queries, and what runs the tests.
REQUIRED = ("server", "pytest")
TUTORIALS = ("several-labels", "two-queries", "history-to-live")
_TESTING = "docs/guides/testing.md"
# Those that crash and kill take longer than all else: tests/python/test_readme.py runs them.
_TESTS = ("clock", "batch")


class WalkError(RuntimeError):
    """A program doesn't print what its page shows. The message has both names and what was printed."""


def projects(root: Path) -> dict[str, tuple[str, str]]:
    """The programs of the tutorials, each with what it has to print."""
    return {name: pages.examples(root, f"docs/tutorials/{name}.md") for name in TUTORIALS}


def own_tests(root: Path) -> dict[str, str]:
    """The files of the test project, by their names."""
    blocks = pages.test_files(root, _TESTING)
    return {f"test_{name}.py": blocks[name] for name in _TESTS}


def walk(root: Path, place: Path, python: Path, environ: Mapping[str, str], step: Callable[..., str]) -> None:
    """Runs all four.

    Args:
        root: the checkout whose documentation is followed.
        place: a folder for the projects.
        python: the environment's.
        environ: of the processes.
        step: runs a command, given its name, its words, its folder and `environ`; returns its output.

    Raises:
        WalkError: one of them prints something else than its page shows.
    """
    for name, (code, shown) in projects(root).items():
        folder = place / name
        folder.mkdir(parents=True)
        (folder / "program.py").write_text(code, encoding="utf-8")
        page = f"docs/tutorials/{name}.md"
        printed = step(page, [str(python), "program.py"], folder, environ)
        if _lines(printed) != _lines(shown):
            raise WalkError(f"{page} shows something else than its program prints:\n{printed}")
    folder = place / "tests"
    folder.mkdir(parents=True)
    files = own_tests(root)
    for name, code in files.items():
        (folder / name).write_text(code, encoding="utf-8")
    line = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    printed = step(f"the tests of {_TESTING}", line, folder, environ)
    if re.search(rf"\b{len(files)} passed\b", printed) is None:
        raise WalkError(f"{len(files)} tests of {_TESTING} should have passed:\n{printed}")


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line]
