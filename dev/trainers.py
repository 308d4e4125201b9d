#!/usr/bin/env python3
"""Tests what reads complete windows in other systems, with the real packages: torch, Ray, Airflow and others.

    .venv/bin/python dev/trainers.py                   all of them, one after the other
    .venv/bin/python dev/trainers.py torch ray         some of them
    .venv/bin/python dev/trainers.py --install torch   makes its environment, and runs nothing

Each has an environment of its own in build/trainers, because their requirements contradict each other. It is
made once for a list of requirements. It also sees the packages of the interpreter that runs this script:
pytest, PySpark and Tailrace's requirements. Standard library only.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

REPOSITORY = Path(__file__).resolve().parents[1]
FOLDER = REPOSITORY / "build" / "trainers"
# The most used first. Linux's default wheel of torch has CUDA's libraries with it: 3 GB. With an index of CPU
# builds in pip's configuration it takes a tenth.
REQUIREMENTS: Mapping[str, Sequence[str]] = {
    "torch": ["torch", "torchdata"],
    "ray": ["ray[data]"],
    "airflow": ["apache-airflow", "apache-airflow-providers-standard"],
    "mlflow": ["mlflow-skinny", "pandas", "sqlalchemy", "alembic"],
    "dagster": ["dagster"],
    "feast": ["feast[duckdb]"],
}


def install(name: str, folder: Path = FOLDER) -> Path:
    """Makes the environment of a system, unless it is there with these requirements.

    Returns:
        Its Python.
    """
    place = folder / name
    python = place / "bin" / "python"
    done = place / "requirements.json"
    wanted = json.dumps(list(REQUIREMENTS[name]))
    if done.exists() and done.read_text(encoding="utf-8") == wanted:
        return python
    shutil.rmtree(place, ignore_errors=True)
    venv.create(place, with_pip=True)
    subprocess.run([python, "-m", "pip", "install", "-q", *REQUIREMENTS[name]], check=True)
    # After what pip has installed: on Python's path, a file .pth comes behind its own folder.
    packages = sysconfig.get_path("purelib", vars={"base": str(place), "platbase": str(place)})
    Path(packages, "of_tailrace.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    done.write_text(wanted, encoding="utf-8")
    return python


def test(name: str, python: Path) -> bool:
    """Runs the tests of a system in its environment; True if they pass."""
    # A plugin by its name: mypy takes two files conftest.py for one module.
    plugins = ["-p", "real_packages", "-p", "no:cacheprovider"]
    command = [str(python), "-m", "pytest", f"tests/trainers/test_{name}.py", *plugins]
    environ = {
        **os.environ,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": os.pathsep.join([str(REPOSITORY / "python"), str(REPOSITORY / "tests/trainers")]),
    }
    return subprocess.run(command, cwd=REPOSITORY, env=environ, check=False).returncode == 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; the exit code is 0 if all tests that were asked for have passed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(REQUIREMENTS)}")
    parser.add_argument("--install", action="store_true", help="only make the environments")
    asked = parser.parse_args(arguments)
    unknown = set(asked.names) - set(REQUIREMENTS)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(REQUIREMENTS)}")
    failed = []
    for name in asked.names or REQUIREMENTS:
        try:
            python = install(name)
            passed = asked.install or test(name, python)
        except (subprocess.CalledProcessError, OSError) as error:
            # The others are tested all the same.
            print(f"{name}: {error}", file=sys.stderr)
            passed = False
        if not passed:
            failed.append(name)
    if failed:
        print(f"FAILED: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
