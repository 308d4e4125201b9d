"""`TAILRACE_SPARK=4.3 pytest`: the same tests with another minor version of Spark, and the jar for that.

pyspark of that version comes into the user's cache, and the package with its jar into `build`. Both have to
be in front of what the environment has before anything imports pyspark, here and in each process that a test
starts. So pytest begins again, with a PYTHONPATH. A test that needs certain versions says so, and why:

    @pytest.mark.spark(">=4.2", reason="Spark 4.1 repartitions no state")
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest
from packaging.specifiers import SpecifierSet

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

_REPOSITORY = Path(__file__).resolve().parents[2]


def pytest_configure(config: pytest.Config) -> None:
    minor = os.environ.get("TAILRACE_SPARK", "")
    if not minor or pyspark.__version__.startswith(f"{minor}."):
        return
    if "TAILRACE_SPARK_AGAIN" in os.environ:
        raise pytest.UsageError(f"TAILRACE_SPARK is {minor}, and {find_spec('pyspark')} comes before it.")
    sparks = _script("sparks")
    try:
        minors = sparks.chosen(os.environ)
    except sparks.SparkError as error:
        raise pytest.UsageError(str(error)) from error
    if minors != [minor]:
        raise pytest.UsageError(f"TAILRACE_SPARK is {minor}: tests run on one minor version at a time.")
    capture = config.pluginmanager.getplugin("capturemanager")
    assert capture is not None
    # What follows is for whoever waits, and the process that comes next inherits the output.
    capture.stop_global_capturing()
    environ = {**os.environ, "PYTHONPATH": search_path(minor), "TAILRACE_SPARK_AGAIN": minor}
    sys.stdout.flush()
    again = [sys.executable, "-m", "pytest", *config.invocation_params.args]
    os.execve(again[0], again, environ)  # noqa: S606 - this program itself


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for mark in item.iter_markers("spark"):
            (needed,) = mark.args
            if not SpecifierSet(needed).contains(pyspark.__version__):
                item.add_marker(pytest.mark.skip(reason=f"needs Spark {needed}: {mark.kwargs['reason']}"))


def search_path(minor: str) -> str:
    """The PYTHONPATH of processes that run on a minor version; both are made first if they are missing.

    Raises:
        pytest.UsageError: that can't be.
    """
    sparks, sbt = _script("sparks"), _script("sbt")
    try:
        paths = [_package(minor), sparks.get(minor, sbt.sparks_directory(os.environ))]
    except sparks.SparkError as error:
        raise pytest.UsageError(str(error)) from error
    before = os.environ.get("PYTHONPATH")
    return os.pathsep.join([*map(str, paths), *([before] if before else [])])


def _package(minor: str) -> Path:
    """The package with the jar for a minor version; it is built if a source of it has changed since then."""
    folder = _REPOSITORY / "build" / f"spark-{minor}"
    built = folder / "built"
    if not built.is_file() or any(one.stat().st_mtime > built.stat().st_mtime for one in _sources()):
        print(f"building tailrace for Spark {minor} in {folder}", flush=True)
        line = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--no-build-isolation",
            "--upgrade",
        ]
        environ = {**os.environ, "TAILRACE_SPARK": minor}
        done = subprocess.run([*line, "--target", str(folder), str(_REPOSITORY)], check=False, env=environ)
        if done.returncode != 0:
            raise pytest.UsageError(f"tailrace for Spark {minor} wasn't built: pip's output is above.")
        built.touch()
    return folder


def _sources() -> Iterator[Path]:
    yield from (_REPOSITORY / "build.sbt", _REPOSITORY / "pyproject.toml")
    for folder in ("jvm/src/main", "project", "python"):
        for place, folders, files in os.walk(_REPOSITORY / folder):
            folders[:] = [name for name in folders if name not in {"__pycache__", "target", "jars"}]
            yield from (Path(place, name) for name in files)


def _script(name: str) -> ModuleType:
    path = _REPOSITORY / "python" / "build_backend" / f"{name}.py"
    spec = spec_from_file_location(f"tailrace_build_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
