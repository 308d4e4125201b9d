#!/usr/bin/env python3
"""Checks a change in minutes, before it is pushed; `.ci/run` is what decides.

    .venv/bin/python dev/quick.py                  what has changed since main, with what isn't committed
    .venv/bin/python dev/quick.py --base HEAD~3    since another commit
    .venv/bin/python dev/quick.py --list           only prints the commands

It runs the formatters' and type checkers' checks, all suites of the JVM that start no Spark, the contract
tests, and the tests that are near to the changed files: a suite is near to a Scala file if it is of its
package or names a type that the file defines; a Python test is near to a module if it imports it. Slow tests
and campaigns are left to the night (`dev/nightly.py`). Standard library only.
"""

from __future__ import annotations

import argparse
import re
import shlex
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

REPOSITORY = Path(__file__).resolve().parents[1]
_SCALA_SOURCES = ("jvm/src/main/", "tests/jvm", "benchmarks/jvm/", "project/", "build.sbt")
_TYPE = re.compile(
    r"^(?:(?:private|sealed|final|abstract|case|implicit)(?:\[\w+\])? +)*(?:class|trait|object) +(\w+)",
    re.MULTILINE,
)
_PACKAGE = re.compile(r"^package +([\w.]+)$", re.MULTILINE)
_IMPORT = re.compile(r"^\s*(?:from +([\w.]+) +import +([\w, ]+|\()|import +([\w.]+))", re.MULTILINE)
# Suites that name a type, at most, for it to say which of them are near.
_FEW = 12
_FAST = "-l slow -l campaign -l long"


class Plan(NamedTuple):
    """The commands of a check: each list runs in its order, and the lists beside each other after `first`."""

    first: list[list[str]]
    beside: list[list[list[str]]]


def changed(root: Path, base: str) -> list[str]:
    """The files that differ from where this branch left `base`, committed or not, as posix paths.

    Raises:
        subprocess.CalledProcessError: git knows no such commit.
    """
    since = _git(root, "merge-base", "HEAD", base)[0]
    named = [*_git(root, "diff", "--name-only", since), *_git(root, "ls-files", "-o", "--exclude-standard")]
    return sorted(set(named))


def near_suites(root: Path, files: Sequence[str]) -> list[str]:
    """The names of the suites of the JVM that are near to these files.

    A type that very many suites name says nothing about any of them: those of its package are near.
    """
    packages: set[str] = set()
    types: set[str] = set()
    found = {Path(name).stem for name in files if name.endswith("Suite.scala") and (root / name).is_file()}
    for name in files:
        if not name.endswith(".scala") or name.endswith("Suite.scala") or not (root / name).is_file():
            continue
        text = (root / name).read_text(encoding="utf-8")
        if name.startswith("jvm/src/main/"):
            packages.update(_PACKAGE.findall(text))
        types.update(_TYPE.findall(text))
    texts = {
        suite.stem: suite.read_text(encoding="utf-8") for suite in root.glob("tests/jvm*/**/*Suite.scala")
    }
    found.update(name for name, text in texts.items() if packages.intersection(_PACKAGE.findall(text)))
    for one in types:
        naming = {name for name, text in texts.items() if re.search(rf"\b{one}\b", text)}
        found.update(naming if len(naming) <= _FEW else ())
    return sorted(found)


def near_tests(root: Path, files: Sequence[str]) -> list[str]:
    """The files of Python tests that are near to these files, as posix paths below `root`.

    The one that runs all suites of the JVM is none of them.
    """
    modules = {module for name in files if (module := _module(name)) is not None}
    found = {name for name in files if re.search(r"(^|/)test_\w+\.py$", name) and (root / name).is_file()}
    found.update(
        test.relative_to(root).as_posix()
        for test in root.glob("tests/*/test_*.py")
        if modules.intersection(_imports(test.read_text(encoding="utf-8")))
    )
    return sorted(found - {"tests/python/test_jvm_suites.py"})


def plan(root: Path, files: Sequence[str]) -> Plan:
    """The commands for these changed files."""
    python = any(name.endswith(".py") or name == "pyproject.toml" for name in files)
    scala = any(name.startswith(_SCALA_SOURCES) for name in files)
    sources = any(name.startswith(("jvm/src/main/", "python/")) for name in files)
    bin_ = str(Path(sys.executable).parent)
    first: list[list[str]] = []
    checks: list[list[str]] = []
    if python:
        folders = ["python", "tests", "benchmarks", "docs", "dev"]
        first += [[f"{bin_}/ruff", "check", *folders], [f"{bin_}/ruff", "format", "--check", *folders]]
        checks.append([f"{bin_}/mypy"])
    if sources:
        # The tests import the package that is installed, and its jar: for most people those of this checkout.
        first.append([f"{bin_}/pip", "install", "--quiet", "--no-deps", *_editable(root), "."])
    if scala:
        suites = [f"jvm/testOnly * -- -l session {_FAST}"]
        near = near_suites(root, files)
        if near:
            suites.append(f"jvm/testOnly {' '.join(f'*.{name}' for name in near)} -- -n session {_FAST}")
        # The benchmarks are no part of the root project: a renamed class would fail in CI only.
        steps = ["scalafmtCheckAll", "bench/scalafmtCheckAll", "bench/compile", *suites]
        checks.append([sys.executable, "python/build_backend/sbt.py", "; ".join(steps)])
    tests: list[list[str]] = []
    if sources:
        tests.append([f"{bin_}/pytest", "-q", "-m", "contract"])
    if near_python := near_tests(root, files):
        fast = "not contract and not slow and not campaign and not guard and not long"
        tests.append([f"{bin_}/pytest", "-q", "-m", fast, *near_python])
    return Plan(first, [part for part in (checks, tests) if part])


def _module(name: str) -> str | None:
    """The module that a file of Python is, by the folders that tests import from."""
    path = PurePosixPath(name)
    if path.suffix != ".py":
        return None
    for folder in ("python", "tests/python", "tests/recovery", "tests/spec", "benchmarks"):
        if path.is_relative_to(folder):
            parts = path.relative_to(folder).with_suffix("").parts
            return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    return None


def _imports(text: str) -> Iterator[str]:
    for module, names, whole in _IMPORT.findall(text):
        yield whole or module
        for name in re.findall(r"\w+", names):
            yield f"{module}.{name}"


def _editable(root: Path) -> list[str]:
    """`-e` if the environment imports the package from the checkout."""
    where = "import importlib.util as u; print(u.find_spec('tailrace').origin)"
    # -P: not from the working directory.
    found = subprocess.run([sys.executable, "-P", "-c", where], check=False, capture_output=True, text=True)
    return ["-e"] if found.stdout.startswith(str(root / "python")) else []


def _git(root: Path, *arguments: str) -> list[str]:
    git = shutil.which("git") or "git"
    done = subprocess.run([git, *arguments], cwd=root, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.split("\n")[:-1]


def _run(commands: Sequence[Sequence[str]]) -> bool:
    """Runs commands in their order, until one fails."""
    for command in commands:
        began = time.monotonic()
        done = subprocess.run(
            command,
            cwd=REPOSITORY,
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        spent = time.monotonic() - began
        result = "passed" if done.returncode == 0 else "FAILED"
        output = done.stdout.decode(errors="replace") if done.returncode else ""
        print(f"{output}{result} in {spent:.0f} s: {shlex.join(command)[:200]}", flush=True)
        if done.returncode != 0:
            return False
    return True


def main() -> int:
    """Runs or lists the commands. Returns the exit code: 0 if all have passed."""
    parser = argparse.ArgumentParser(description="Checks a change in minutes, before it is pushed.")
    parser.add_argument("--base", default="main", help="the commit that the change is compared with")
    parser.add_argument("--list", action="store_true", help="prints the commands and runs none")
    arguments = parser.parse_args()
    files = changed(REPOSITORY, arguments.base)
    if not files:
        print(f"Nothing has changed since {arguments.base}.")
        return 0
    chosen = plan(REPOSITORY, files)
    if arguments.list:
        for command in [*chosen.first, *(one for part in chosen.beside for one in part)]:
            print(shlex.join(command))
        return 0
    if not _run(chosen.first):
        return 1
    # Two parts, two cores: types and the JVM's suites beside the tests of Python.
    with ThreadPoolExecutor() as beside:
        return 0 if all(list(beside.map(_run, chosen.beside))) else 1


if __name__ == "__main__":
    sys.exit(main())
