"""The jar in the wheel: where it is, and what it says of itself."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path

from tailrace._version import __version__
from tailrace.errors import TailraceSessionError, TailraceVersionError

_FOLDER = Path(__file__).resolve().parent / "jars"


@dataclass(frozen=True)
class JarVersions:
    """The versions in a jar's manifest: its own, and those of the Spark and Scala it was built for."""

    tailrace: str
    spark: str
    scala: str


def jar_path() -> Path:
    """Returns the absolute path of the jar that this wheel carries.

    `tailrace.configure` adds it by itself; pass it on by hand where the session isn't built in Python:
    `spark-submit --jars "$(tailrace jar)" ...`.

    Raises:
        TailraceSessionError: the package has no jar, because it runs from sources that were never built.
    """
    jar = _FOLDER / f"tailrace-{__version__}.jar"
    if not jar.is_file():
        raise TailraceSessionError(
            f"This installation of tailrace has no jar (looked for {jar}): install it with pip, which "
            "builds the jar, instead of importing it from its sources."
        )
    return jar


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
