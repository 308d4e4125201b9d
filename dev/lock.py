#!/usr/bin/env python3
"""Writes `.ci/constraints.txt`: the version of each package that CI and the images install.

    .venv/bin/pip install uv && .venv/bin/python dev/lock.py            the newest versions
    .venv/bin/python dev/lock.py --keep                                 those of the file, and what is missing

uv resolves what the wheel and all of its extras require, for each Python that Tailrace supports. pip takes
the file by PIP_CONSTRAINT, which also holds in the environments that it builds packages in. Standard library
only, and uv.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tomllib
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

REPOSITORY = Path(__file__).resolve().parents[1]
CONSTRAINTS = Path(".ci/constraints.txt")
_HEADER = """\
# The packages that CI and the images install. Made by `dev/lock.py`: don't edit it by hand.
"""
_OWN = re.compile(r"tailrace\[([\w,-]+)\]")


def requirements(root: Path) -> list[str]:
    """What the package, its extras and its build require, without the package itself."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    dependencies = project["tool"]["hatch"]["metadata"]["hooks"]["custom"]["dependencies"]
    extras = project["project"]["optional-dependencies"]
    sparks = _sparks(root)
    every = [
        *project["build-system"]["requires"],
        *dependencies,
        sparks.requirement([sparks.DEFAULT]),
        *(one for extra in extras.values() for one in extra),
    ]
    own = {name for one in every if (found := _OWN.fullmatch(one)) for name in found[1].split(",")}
    unknown = own - set(extras)
    if unknown:
        raise SystemExit(f"lock: pyproject.toml has no extra {', '.join(sorted(unknown))}")
    return sorted({one for one in every if not _OWN.fullmatch(one)})


def minimum(root: Path) -> str:
    """The oldest Python that the package supports: "3.11"."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["requires-python"]).removeprefix(">=")


def lock(root: Path, *, keep: bool) -> str:
    """The text of the file.

    Args:
        root: the checkout.
        keep: whether the versions that the file has stay where they may.
    """
    target = root / CONSTRAINTS
    line = [sys.executable, "-m", "uv", "pip", "compile", "--universal", "--python-version", minimum(root)]
    line += [*([] if keep else ["--upgrade"]), "--no-header", "--no-annotate", "--quiet"]
    line += ["--output-file", str(target), "-"]
    done = subprocess.run(line, input="\n".join(requirements(root)), text=True, check=False)
    if done.returncode != 0:
        raise SystemExit("lock: uv has failed, and says why above. Is it installed? .venv/bin/pip install uv")
    return _HEADER + target.read_text(encoding="utf-8")


def _sparks(root: Path) -> Any:  # noqa: ANN401  the build backend is no package
    spec = spec_from_file_location("sparks", root / "python/build_backend/sparks.py")
    if spec is None or spec.loader is None:
        raise SystemExit("lock: python/build_backend/sparks.py isn't there")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--keep", action="store_true", help="keep the versions that the file has")
    asked = parser.parse_args(arguments)
    (REPOSITORY / CONSTRAINTS).write_text(lock(REPOSITORY, keep=asked.keep), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
