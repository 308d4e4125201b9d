"""What the tests in environments of their own share: a plugin that `dev/trainers.py` names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import pages
from landed_windows import LandedWindows

if TYPE_CHECKING:
    from collections.abc import Callable

_REPOSITORY = Path(__file__).resolve().parents[2]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        # These packages warn of each other.
        item.add_marker(pytest.mark.filterwarnings("default"))


@pytest.fixture(scope="session")
def repository() -> Path:
    return _REPOSITORY


@pytest.fixture
def windows(tmp_path: Path) -> LandedWindows:
    """Three hours of windows: 17 rows in two files, none, 9 rows."""
    made = LandedWindows(tmp_path / "clicks")
    made.land(11, 6)
    made.land()
    made.land(9)
    return made


@pytest.fixture(scope="session")
def defined(repository: Path) -> Callable[..., dict[str, Any]]:
    """Runs an example of a guide, with another folder in place of /data/clicks; returns what it defines."""

    def run(guide: str, name: str, folder: Path | None = None) -> dict[str, Any]:
        code = pages.example(repository, f"docs/guides/{guide}.md", name)
        code = code.replace('"/data/clicks"', repr(str(folder)))
        names: dict[str, Any] = {}
        # Not with this file's future imports: annotations are evaluated, as in a file of a user.
        exec(compile(code, name, "exec", dont_inherit=True), names)  # noqa: S102
        return names

    return run
