"""The minor versions of Spark that there are jars for, and pyspark of each in the user's cache directory.

    python python/build_backend/sparks.py 4.3    # prints where pyspark 4.3.0 is, and installs it first

pip installs a pyspark once, in a folder of its own: 500 MB. Where Maven Central lacks a version, sbt compiles
against the jars in it (project/SparkJars.scala). Tests of a minor version import it. Standard library only,
and pip.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

VARIABLE = "TAILRACE_SPARK"
DEFAULT = "4.2"
_VERSIONS = Path(__file__).resolve().parents[2] / "project" / "Versions.scala"


class SparkError(RuntimeError):
    """There is no such Spark. The message is one sentence with the problem and the fix."""


def versions() -> dict[str, str]:
    """The version that is compiled against for each minor version, ascending: {"4.1": "4.1.4", ...}."""
    found = re.findall(r'SparkMinor\("([\d.]+)", "([\d.]+)"', _VERSIONS.read_text(encoding="utf-8"))
    return dict(sorted(found, key=lambda pair: _numbers(pair[0])))


def chosen(environ: Mapping[str, str]) -> list[str]:
    """The minor versions that TAILRACE_SPARK names, ascending.

    Args:
        environ: environment variables. "4.3", "4.1,4.3" or "all"; without it the default is taken.

    Raises:
        SparkError: it names one that there is no jar for.
    """
    known = list(versions())
    named = environ.get(VARIABLE, "").strip() or DEFAULT
    if named == "all":
        return known
    wanted = {part.strip() for part in named.split(",")}
    if not wanted <= set(known):
        raise SparkError(
            f"{VARIABLE} is {named!r}, and tailrace has jars for Spark {', '.join(known)}: name some of "
            "these with commas between, or all."
        )
    return [minor for minor in known if minor in wanted]


def requirement(minors: Sequence[str]) -> str:
    """The requirement of a wheel with jars for exactly these minor versions: "pyspark>=4.1,<4.4"."""
    first, last = _numbers(minors[0]), _numbers(minors[-1])
    left_out = [minor for minor in versions() if first < _numbers(minor) < last and minor not in minors]
    return f"pyspark>={minors[0]},<{last[0]}.{last[1] + 1}" + "".join(f",!={minor}.*" for minor in left_out)


def project(minor: str) -> str:
    """The project of sbt that makes the jar for a minor version."""
    return "jvm" if minor == DEFAULT else f"jvm{minor.replace('.', '')}"


def jar_name(minor: str, tailrace: str) -> str:
    """The file name of the jar for a minor version, in Tailrace's version."""
    return f"tailrace-spark{minor}_2.13-{tailrace}.jar"


def missing(minors: Sequence[str], cache: Path) -> list[str]:
    """Those of these minor versions whose pyspark sbt compiles against, and the cache lacks."""
    listed = re.search(r"wheelOnly = Set\(([^)]*)\)", _VERSIONS.read_text(encoding="utf-8"))
    needed = re.findall(r'"([\d.]+)"', listed[1]) if listed is not None else []
    known = versions()
    return [minor for minor in minors if known[minor] in needed and not (cache / known[minor]).is_dir()]


def get(version: str, cache: Path) -> Path:
    """Returns the folder, for `sys.path`, with pyspark of a version. Installs it if it isn't there yet.

    Args:
        version: "4.3.0", or "4.3" for the one of that minor version which is compiled against.
        cache: where such folders are.

    Raises:
        SparkError: it is no version, or pip can't install it.
    """
    version = versions().get(version, version)
    if re.fullmatch(r"\d+\.\d+\.\d+", version) is None:
        raise SparkError(f"{version!r} is no version of Spark: name one like 4.3.0.")
    place = cache / version
    if place.is_dir():
        return place
    cache.mkdir(parents=True, exist_ok=True)
    print(f"tailrace: pip installs pyspark {version} into {place}", file=sys.stderr)
    # Installed elsewhere and moved as a whole: an interruption leaves nothing that looks complete.
    with tempfile.TemporaryDirectory(dir=cache, prefix=f".{version}-") as temporary:
        aside = Path(temporary, "whole")
        line = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(aside)]
        # A constraint names the one version of pyspark that the rest of the environment has.
        environ = {name: value for name, value in os.environ.items() if name != "PIP_CONSTRAINT"}
        done = subprocess.run(
            [*line, f"pyspark=={version}"],
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr.fileno(),
            env=environ,
        )
        if done.returncode != 0 or not list(aside.glob("pyspark/jars/*.jar")):
            raise SparkError(
                f"pip couldn't install pyspark {version} (its output is above): check version and network."
            )
        try:
            aside.rename(place)
        except OSError:
            # Another process was faster.
            if not place.is_dir():
                raise
    return place


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def main() -> int:
    """Prints where pyspark of each version is that is named."""
    import sbt  # noqa: PLC0415 - beside this script; the build's hook loads both by their paths

    try:
        for version in sys.argv[1:]:
            print(get(version, sbt.sparks_directory(os.environ)))
    except SparkError as error:
        print(f"tailrace: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
