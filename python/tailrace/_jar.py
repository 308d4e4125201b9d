"""The jars in the wheel, one for each minor version of Spark: where they are, what they say of themselves."""

from __future__ import annotations

import re
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pyspark

from tailrace._version import __version__
from tailrace._versions import SCALA_SERIES, series
from tailrace.errors import TailraceSessionError, TailraceVersionError

_FOLDER = Path(__file__).resolve().parent / "jars"


@dataclass(frozen=True)
class JarVersions:
    """The versions in a jar's manifest: its own, and those of the Spark and Scala it was built for."""

    tailrace: str
    spark: str
    scala: str


def jars() -> dict[str, Path]:
    """The jars of this installation by the minor version of Spark, ascending."""
    found = {}
    for jar in _FOLDER.glob(f"tailrace-spark*_{SCALA_SERIES}-{__version__}.jar"):
        minor = re.match(r"tailrace-spark(\d+\.\d+)_", jar.name)
        if minor is not None:
            found[minor[1]] = jar
    return dict(sorted(found.items(), key=lambda pair: [int(part) for part in pair[0].split(".")]))


def jar_path(spark: str | None = None) -> Path:
    """Returns the absolute path of the jar for a version of Spark: the wheel has one for each minor version.

    `tailrace.configure` adds it by itself; pass it on by hand where the session isn't built in Python:
    `spark-submit --jars "$(tailrace jar)" ...`.

    Args:
        spark: "4.3" or "4.3.0"; None: that of the pyspark which is installed.

    Raises:
        TailraceVersionError: the package has no jar for that version.
        TailraceSessionError: it has none at all, because it runs from sources that were never built.
    """
    version = pyspark.__version__ if spark is None else spark
    found = jars()
    if not found:
        raise TailraceSessionError(
            f"This installation of tailrace has no jar (looked for {_FOLDER / _name(series(version))}): "
            "install it with pip, which builds the jar, instead of importing it from its sources."
        )
    if series(version) not in found:
        what = f"pyspark {version} is installed" if spark is None else f"Spark {spark} is asked for"
        newest = list(found)[-1]
        raise TailraceVersionError(
            f"{what}, and this installation of tailrace has jars for Spark {', '.join(found)}: run "
            f'pip install "pyspark=={newest}.*", or build tailrace with TAILRACE_SPARK={series(version)} in '
            "pip's environment."
        )
    return found[series(version)]


def _name(minor: str) -> str:
    return f"tailrace-spark{minor}_{SCALA_SERIES}-{__version__}.jar"


def read_versions(jar: Path) -> JarVersions:
    """Reads the versions in a jar's manifest.

    Args:
        jar: path of a jar that sbt built.

    Raises:
        TailraceVersionError: it is no jar of Tailrace's, or a damaged one.
    """
    try:
        with zipfile.ZipFile(jar) as archive:
            manifest = archive.read("META-INF/MANIFEST.MF").decode("utf-8")
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise TailraceVersionError(
            f"{jar} can't be read as a jar ({error}): reinstall tailrace with pip install --force-reinstall."
        ) from error
    # One "Name: value" a line; a value beyond 72 bytes would go on in the next line, after a blank.
    unfolded = manifest.replace("\r\n", "\n").replace("\n ", "")
    attributes = dict(line.split(": ", 1) for line in unfolded.splitlines() if ": " in line)
    try:
        return JarVersions(
            attributes["Tailrace-Version"],
            attributes["Tailrace-Spark-Version"],
            attributes["Tailrace-Scala-Version"],
        )
    except KeyError as missing:
        raise TailraceVersionError(
            f"{jar} isn't a jar of Tailrace's, its manifest has no {missing}: reinstall tailrace with pip."
        ) from missing
