"""`dev/quick.py`: what has changed, and which tests are near to it."""

from __future__ import annotations

import shlex
import subprocess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import ModuleType

_FILES = {
    "jvm/src/main/scala/io/tailrace/label/Group.scala": "package io.tailrace.label\n\nfinal class Group\n",
    "jvm/src/main/scala/io/tailrace/state/Run.scala": (
        "package io.tailrace.state\n\nprivate[tailrace] final case class Run(n: Int)\n"
    ),
    "tests/jvm/io/tailrace/label/GroupSuite.scala": "package io.tailrace.label\n",
    "tests/jvm/io/tailrace/state/RunSuite.scala": "package io.tailrace.state\n",
    "tests/jvm/io/tailrace/plan/WholeSuite.scala": "package io.tailrace.plan\n// a Run\n",
    "python/tailrace/__init__.py": "from tailrace.join import join\n",
    "python/tailrace/join.py": "",
    "python/tailrace/_bridge/jvm.py": "",
    "tests/python/test_join.py": "import tailrace.join\n",
    "tests/python/test_bridge.py": "from tailrace._bridge import call, jvm\n",
    "tests/python/test_oracle.py": "from oracle import rows\n",
    "tests/python/oracle.py": "",
    "tests/python/test_jvm_suites.py": "from tailrace._bridge import jvm\n",
    "README.md": "",
}


@pytest.fixture
def quick(load_script: Callable[[str], ModuleType]) -> ModuleType:
    return load_script("dev/quick.py")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in _FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("changed", "near"),
    [
        ("jvm/src/main/scala/io/tailrace/label/Group.scala", ["GroupSuite"]),
        ("jvm/src/main/scala/io/tailrace/state/Run.scala", ["RunSuite", "WholeSuite"]),
        ("tests/jvm/io/tailrace/label/GroupSuite.scala", ["GroupSuite"]),
        ("jvm/src/main/scala/io/tailrace/state/Deleted.scala", []),
        ("README.md", []),
    ],
)
def test_suites_are_near_by_package_and_by_name(
    quick: ModuleType, root: Path, changed: str, near: list[str]
) -> None:
    assert quick.near_suites(root, [changed]) == near


def test_a_type_that_all_suites_name_leads_to_none_of_them(quick: ModuleType, root: Path) -> None:
    for i in range(20):
        (root / f"tests/jvm/io/tailrace/plan/Other{i}Suite.scala").write_text(
            "package io.tailrace.plan // Run"
        )
    assert quick.near_suites(root, ["jvm/src/main/scala/io/tailrace/state/Run.scala"]) == ["RunSuite"]


@pytest.mark.parametrize(
    ("changed", "near"),
    [
        ("python/tailrace/join.py", ["tests/python/test_join.py"]),
        ("python/tailrace/_bridge/jvm.py", ["tests/python/test_bridge.py"]),
        ("tests/python/oracle.py", ["tests/python/test_oracle.py"]),
        ("tests/python/test_oracle.py", ["tests/python/test_oracle.py"]),
        ("tests/python/test_deleted.py", []),
    ],
)
def test_python_tests_are_near_by_import(
    quick: ModuleType, root: Path, changed: str, near: list[str]
) -> None:
    assert quick.near_tests(root, [changed]) == near


def test_what_is_committed_changed_and_new_counts(quick: ModuleType, root: Path) -> None:
    def git(*words: str) -> None:
        of = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *of, *words], cwd=root, check=True, capture_output=True)  # noqa: S607

    git("init", "-b", "main")
    git("add", ".")
    git("commit", "-m", "begin")
    git("checkout", "-b", "change")
    (root / "README.md").write_text("1")
    git("commit", "-am", "change")
    (root / "python/tailrace/join.py").write_text("1")
    (root / "new.py").write_text("1")
    assert quick.changed(root, "main") == ["README.md", "new.py", "python/tailrace/join.py"]


def test_a_text_needs_no_command(quick: ModuleType, root: Path) -> None:
    assert quick.plan(root, ["README.md"]) == ([], [])


def test_a_source_in_scala_is_installed_before_the_tests_use_it(quick: ModuleType, root: Path) -> None:
    first, beside = quick.plan(root, ["jvm/src/main/scala/io/tailrace/state/Run.scala"])
    assert [shlex.join(command).split("/")[-1] for command in first] == ["pip install --quiet --no-deps ."]
    (suites,), (contract,) = beside
    assert "bench/compile" in suites[-1], "the benchmarks use classes of the engine"
    assert "jvm/testOnly * -- -l session" in suites[-1]
    assert "jvm/testOnly *.RunSuite *.WholeSuite -- -n session" in suites[-1]
    assert contract[1:] == ["-q", "-m", "contract"]
