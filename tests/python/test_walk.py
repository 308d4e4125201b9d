"""`dev/walk.py`: what it runs is in the documentation, and what differs from it is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import pages
import walk
from test_readme import TUTORIALS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

PASSED = "2 passed in 9.00s\n"


class Steps:
    """Stands in for the processes: what each of them prints, by its name."""

    def __init__(self, **printed: str) -> None:
        self.printed = printed
        self.files: dict[str, list[str]] = {}

    def __call__(self, name: str, line: Sequence[str], folder: Path, environ: Mapping[str, str]) -> str:
        assert line[0].endswith("bin/python")
        assert environ == {"SPARK_LOCAL_IP": "127.0.0.1"}
        self.files[folder.name] = sorted(file.name for file in folder.iterdir())
        assert name.startswith(("docs/tutorials/", "the tests of docs/guides/testing.md"))
        return self.printed[folder.name]


def _walk(repository: Path, place: Path, steps: Steps) -> None:
    walk.walk(repository, place, place / "bin/python", {"SPARK_LOCAL_IP": "127.0.0.1"}, steps)


def _right(repository: Path) -> dict[str, str]:
    return {name: shown for name, (_, shown) in walk.projects(repository).items()} | {"tests": PASSED}


def test_four_projects_that_print_what_their_pages_show(repository: Path, tmp_path: Path) -> None:
    steps = Steps(**_right(repository))
    _walk(repository, tmp_path, steps)
    assert steps.files == {
        "history-to-live": ["program.py"],
        "several-labels": ["program.py"],
        "two-queries": ["program.py"],
        "tests": ["test_batch.py", "test_clock.py"],
    }
    # The night runs them, too, as it does all tutorials.
    assert set(walk.TUTORIALS) <= set(TUTORIALS)


@pytest.mark.parametrize(
    ("project", "printed", "said"),
    [
        ("two-queries", "complete: ['hours/clicks']\n", "shows something else than its program prints"),
        ("tests", "1 failed, 1 passed in 9.00s\n", "2 tests of docs/guides/testing.md should have passed"),
    ],
)
def test_what_differs_is_told(
    repository: Path, tmp_path: Path, project: str, printed: str, said: str
) -> None:
    with pytest.raises(walk.WalkError, match=said) as error:
        _walk(repository, tmp_path, Steps(**_right(repository) | {project: printed}))
    assert printed in str(error.value)


def test_a_page_without_what_is_asked_for_is_named(repository: Path) -> None:
    for asked in (
        lambda: pages.example(repository, "README.md", "nothing"),
        lambda: pages.shown_example(repository, "docs/guides/testing.md", "clock"),
        lambda: pages.examples(repository, "LICENSE"),
        lambda: pages.test_files(repository, "README.md"),
    ):
        with pytest.raises(LookupError, match=r"^(README\.md|docs/guides/testing\.md|LICENSE) has no "):
            asked()
