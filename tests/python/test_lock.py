"""`.ci/constraints.txt` has what the package and its extras require, and nothing of a machine."""

from __future__ import annotations

import os
import re
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import lock
import walk

if TYPE_CHECKING:
    from pathlib import Path


def _pinned(repository: Path) -> dict[str, list[Requirement]]:
    """The constraints by name: one, or one for each Python or platform."""
    found: dict[str, list[Requirement]] = {}
    for line in (repository / lock.CONSTRAINTS).read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            one = Requirement(line)
            found.setdefault(canonicalize_name(one.name), []).append(one)
    return found


def _version(pinned: Requirement) -> str:
    (one,) = pinned.specifier
    assert one.operator == "=="
    return str(one.version)


def test_each_requirement_has_a_version_that_it_accepts(repository: Path) -> None:
    pinned = _pinned(repository)
    wanted = [Requirement(line) for line in lock.requirements(repository)]
    assert {"hatchling", "pyspark", "py4j", "fastapi", "sphinx", "pytest", "twine"} <= {
        canonicalize_name(one.name) for one in wanted
    }
    for one in wanted:
        for found in pinned[canonicalize_name(one.name)]:
            assert one.specifier.contains(_version(found)), f"{found} isn't {one}: run dev/lock.py"


def test_what_the_rehearsal_installs_besides_is_there(repository: Path) -> None:
    assert set(walk.REQUIRED) - {"server"} <= set(_pinned(repository))


def test_the_file_is_small_and_names_no_registry_and_no_path(repository: Path) -> None:
    text = (repository / lock.CONSTRAINTS).read_text(encoding="utf-8")
    assert len(text) < 100_000
    assert not re.search(r"https?:|file:|--|@ ", text)
    for line in text.splitlines()[1:]:
        assert re.fullmatch(r"[a-z0-9-]+==[\w.]+( ; .*)?", line), line


def test_ci_installs_by_it(repository: Path) -> None:
    script = (repository / ".ci/run").read_text(encoding="utf-8")
    assert f'export PIP_CONSTRAINT="$PWD/{lock.CONSTRAINTS}"\n' in script


@pytest.mark.skipif("PIP_CONSTRAINT" not in os.environ, reason="an environment without constraints")
def test_the_environment_of_ci_has_these_versions(repository: Path) -> None:
    differ = {}
    for name, pins in _pinned(repository).items():
        for one in pins:
            if one.marker is None or one.marker.evaluate():
                try:
                    found = version(name)
                except PackageNotFoundError:
                    continue
                if found != _version(one):
                    differ[name] = (found, _version(one))
    assert differ == {}


def test_an_extra_of_the_package_itself_is_taken_apart(tmp_path: Path, repository: Path) -> None:
    project = (repository / "pyproject.toml").read_text()
    backend = tmp_path / "python/build_backend"
    backend.mkdir(parents=True)
    (backend / "sparks.py").write_text((repository / "python/build_backend/sparks.py").read_text())
    (tmp_path / "pyproject.toml").write_text(project)
    whole = lock.requirements(repository)
    with pytest.raises(FileNotFoundError):  # of the versions of Spark, which are in project/
        lock.requirements(tmp_path)
    (tmp_path / "project").mkdir()
    (tmp_path / "project/Versions.scala").write_text((repository / "project/Versions.scala").read_text())
    assert lock.requirements(tmp_path) == whole
    assert not [one for one in whole if one.startswith("tailrace")]
    (tmp_path / "pyproject.toml").write_text(project.replace("tailrace[rich]", "tailrace[richer]"))
    with pytest.raises(SystemExit, match="no extra richer"):
        lock.requirements(tmp_path)
