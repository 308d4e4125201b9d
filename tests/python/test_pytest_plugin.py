"""What pytest loads in every run of an environment where Tailrace is installed."""

from __future__ import annotations

import importlib
import tomllib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path


def test_the_plugin_loads_no_spark(
    repository: Path, run_python: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    project = tomllib.loads((repository / "pyproject.toml").read_text())
    (name,) = project["project"]["entry-points"]["pytest11"].values()
    loaded = "[m for m in ('tailrace', 'pyspark', 'pyarrow') if m in sys.modules]"
    done = run_python("-c", f"import sys, pytest, {name}; print({loaded})")
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_the_fixtures_are_there_by_their_former_name_too() -> None:
    import tailrace_pytest  # noqa: PLC0415 - as `-p tailrace.testing.plugin` loads it

    plugin = importlib.import_module("tailrace.testing.plugin")

    assert all(getattr(plugin, name) is getattr(tailrace_pytest, name) for name in plugin.__all__)
