"""Gets the jars of a Spark that Maven Central lacks, out of pyspark of that version.

    python python/build_backend/spark_jars.py 4.3.0

sbt takes them from the user's cache directory (project/SparkJars.scala), or from the directory that
TAILRACE_SPARK_JARS names. They are 400 MB for each version. Standard library only, and pip.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class SparkJarsError(RuntimeError):
    """No jars of that version are to be had. The message is one sentence: what is wrong and what to do."""


def directory(version: str, environ: Mapping[str, str]) -> Path:
    """Where the jars of a version are, or will be.

    Args:
        version: of Spark, for instance "4.3.0".
        environ: environment variables; TAILRACE_SPARK_JARS is read.
    """
    named = environ.get("TAILRACE_SPARK_JARS")
    return (Path(named) if named else Path.home() / ".cache" / "tailrace" / "spark") / version


def get(version: str, environ: Mapping[str, str]) -> Path:
    """Returns the directory with the jars of a version. Downloads pyspark if it isn't there yet.

    Args:
        version: of Spark, for instance "4.3.0".
        environ: environment variables; TAILRACE_SPARK_JARS is read.

    Raises:
        SparkJarsError: it is no version, pip can't download it, or there are no jars in it.
    """
    if re.fullmatch(r"\d+\.\d+\.\d+", version) is None:
        raise SparkJarsError(f"{version!r} is no version of Spark: name one like 4.3.0.")
    place = directory(version, environ)
    if not place.is_dir():
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place.parent, prefix=f".{version}-") as aside:
            jars = Path(aside, "jars")
            jars.mkdir()
            unpack(_download(version, Path(aside)), jars)
            # Moved as a whole, so that a download that was cut off leaves nothing that looks complete.
            jars.rename(place)
    return place


def unpack(archive: Path, into: Path) -> None:
    """Copies the jars of pyspark's archive into a directory.

    Args:
        archive: a wheel, or a source distribution, which has the same jars.
        into: an empty directory.

    Raises:
        SparkJarsError: there is no jar in it.
    """
    count = 0
    for name, content in _jars(archive):
        with Path(into, name).open("wb") as file:
            shutil.copyfileobj(content, file)
        count += 1
    if count == 0:
        raise SparkJarsError(f"{archive.name} has no jars: name a version that has them, such as 4.3.0.")


def _jars(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            for member in wheel.namelist():
                if _is_jar(member):
                    with wheel.open(member) as content:
                        yield PurePosixPath(member).name, content
        return
    with tarfile.open(archive) as source:
        for entry in source:
            content = source.extractfile(entry) if _is_jar(entry.name) else None
            if content is not None:
                yield PurePosixPath(entry.name).name, content


def _is_jar(member: str) -> bool:
    path = PurePosixPath(member)
    return path.suffix == ".jar" and path.parent.name == "jars"


def _download(version: str, into: Path) -> Path:
    line = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(into)]
    done = subprocess.run([*line, f"pyspark=={version}"], check=False, stdin=subprocess.DEVNULL)
    found = sorted(into.glob("pyspark-*"))
    if done.returncode != 0 or not found:
        raise SparkJarsError(
            f"pip couldn't download pyspark {version} (its output is above): check version and network."
        )
    return found[0]


def main() -> int:
    """Gets the jars of each version that is named; prints where they are."""
    try:
        for version in sys.argv[1:]:
            print(get(version, os.environ))
    except SparkJarsError as error:
        print(f"tailrace: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
