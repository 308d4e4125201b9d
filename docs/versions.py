"""The site of `main` and of each tag `v*`, a folder each: `sphinx-polyversion docs/versions.py`.

Each version is built in an environment of its own that has its own package. So its reference, its command
line and the outputs of its notebook are those of that version. `-o ENVIRONMENT=this` takes the environment
that runs the command for all versions, which is quicker.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sphinx_polyversion.api import apply_overrides
from sphinx_polyversion.driver import DefaultDriver
from sphinx_polyversion.environment import Environment
from sphinx_polyversion.git import Git
from sphinx_polyversion.pyvenv import Pip, VenvWrapper
from sphinx_polyversion.sphinx import SphinxBuilder

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sphinx_polyversion.git import GitRef

ROOT = Path(__file__).resolve().parents[1]
OUTPUT_DIR = ROOT / "build/site"
ENVIRONMENT = "own"
MOCK = False
# Each has a Spark of its own for the notebook.
SEQUENTIAL = True

apply_overrides(globals())


def names(revisions: Iterable[GitRef]) -> list[str]:
    """`main`, then the tags, the newest first."""
    ordered = sorted(revisions, key=lambda revision: (revision.name == "main", revision.date), reverse=True)
    return [revision.name for revision in ordered]


def of_root(driver: DefaultDriver[GitRef, Environment, str]) -> dict[str, str]:
    """What `site-root` is told: the newest tag, or `main` as long as there is none."""
    return {"newest": names(driver.builds)[:2][-1]}


class _Inside:
    """Runs the commands in the folder of the version, which has its own conf.py."""

    path: Path

    async def run(self, *command: str, **options: Any) -> Any:  # noqa: ANN401  as polyversion's own
        return await super().run(*command, **{"cwd": self.path, **options})  # type: ignore[misc]


class _Own(_Inside, Pip):  # type: ignore[misc]
    """An environment with the version's package."""


class _This(_Inside, Environment):  # type: ignore[misc]
    """The environment that runs the command."""


own = _Own.factory(venv=".venv", creator=VenvWrapper(), temporary=True, args=["--quiet", ".[docs]"])
driver = DefaultDriver(
    ROOT,
    # The commands run elsewhere.
    OUTPUT_DIR.resolve(),
    vcs=Git(branch_regex=r"main", tag_regex=r"v.+"),
    # Warnings are no errors here: a tag has had its check, and newer tools warn of more.
    builder=SphinxBuilder(".", args=["-q", "-c", "docs"]),
    env=own if ENVIRONMENT == "own" else _This.factory(),
    data_factory=lambda driver, revision, _: {
        "versions": names(driver.targets),
        "version_here": revision.name,
    },
    root_data_factory=of_root,
    template_dir=ROOT / "docs/site-root",
)
driver.run(MOCK, SEQUENTIAL)

built = {revision.name for revision in driver.builds}
missing = [revision.name for revision in driver.targets if revision.name not in built]
if missing:
    sys.exit(f"There is no site of {', '.join(missing)}: the reason is above.")
