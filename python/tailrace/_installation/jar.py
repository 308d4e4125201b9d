"""The jars in the wheel, one for each minor version of Spark: their paths and their manifests."""

from __future__ import annotations

import os
import re
import zipfile
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pyspark

from tailrace._installation import jar_patch
from tailrace._installation.ivy import cache_directory
from tailrace._installation.versions import SCALA_SERIES, series
from tailrace._version import __version__
from tailrace.errors import TailraceSessionError, TailraceVersionError

_FOLDER = Path(__file__).resolve().parents[1] / "jars"


@dataclass(frozen=True)
class JarVersions:
    """The versions in a jar's manifest: its own, and those of the Spark and Scala it was built for."""

    tailrace: str
    spark: str
    scala: str


def jars() -> list[str]:
    """The minor versions of Spark that this installation has a jar for, ascending."""
    found = {*_files("jar"), *_files("patch")}
    return sorted(found, key=lambda minor: [int(part) for part in minor.split(".")])


def _files(kind: str) -> dict[str, Path]:
    """The jars, or the patches that make jars of one of them, by the minor version of Spark."""
    found: dict[str, Path] = {}
    for file in _FOLDER.glob(f"tailrace-spark*_{SCALA_SERIES}-{__version__}.{kind}"):
        minor = re.match(r"tailrace-spark(\d+\.\d+)_", file.name)
        if minor is not None:
            found[minor[1]] = file
    return found


def jar_path(spark: str | None = None) -> Path:
    """Returns the absolute path of the jar for a version of Spark: the wheel has one for each minor version.

    A wheel for several versions has one jar, and patches that make the others from it. Each is made at its
    first use, in the package's folder, or in the user's cache if that can't be written to.
    `tailrace.configure` adds it on its own; pass it on by hand where the session isn't built in Python:
    `spark-submit --jars "$(tailrace jar)" ...`.

    Args:
        spark: "4.3" or "4.3.0"; None: that of the pyspark which is installed.

    Raises:
        TypeError: `spark` isn't a string.
        TailraceVersionError: the package has no jar for that version.
        TailraceSessionError: it has none at all, because it runs from sources that were never built; or no
            folder for a jar can be written to.
    """
    if spark is not None and not isinstance(spark, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f'`spark` must be a string such as "4.3", not {type(spark).__name__}.')
    version = pyspark.__version__ if spark is None else spark
    if not re.fullmatch(r"\d+\.\d+(\..+)?", version):
        raise TailraceVersionError(
            f"{version!r} is no version of Spark: write one such as {series(pyspark.__version__)}. This "
            f"installation of tailrace has jars for Spark {', '.join(jars())}."
        )
    found = jars()
    if not found:
        raise TailraceSessionError(
            f"This installation of tailrace has no jar (looked for {_FOLDER / _name(series(version))}): "
            "install it with pip, which builds the jar, instead of importing it from its sources."
        )
    if series(version) not in found:
        installed = spark is None
        what = f"pyspark {version} is installed" if installed else f"Spark {version} is asked for"
        other = f'pip install "pyspark=={found[-1]}.*", or ' if installed else ""
        raise TailraceVersionError(
            f"{what}, and this installation of tailrace has jars for Spark {', '.join(found)}: run {other}"
            f"TAILRACE_SPARK={','.join([*found, series(version)])} pip install . in a clone of tailrace."
        )
    minor, whole = series(version), _files("jar")
    return whole[minor] if minor in whole else _made(minor, whole)


def _made(minor: str, whole: dict[str, Path]) -> Path:
    patch = _files("patch")[minor]
    cache = cache_directory(os.environ) / "jars"
    if len(whole) != 1:
        raise TailraceSessionError(
            f"{patch} is for one jar beside it, and there are {len(whole)}: "
            "pip install --force-reinstall tailrace."
        )
    (base,) = whole.values()
    try:
        made = jar_patch.apply(base, patch, _name(minor), [_FOLDER, cache])
        _record(made)
    except zipfile.BadZipFile as error:
        raise TailraceSessionError(
            f"{base} or {patch} is damaged ({error}): pip install --force-reinstall tailrace."
        ) from error
    except OSError as error:
        raise TailraceSessionError(
            f"The jar for Spark {minor} can't be written, neither in {_FOLDER} nor in {cache} ({error}): set "
            "XDG_CACHE_HOME to a folder that can be written to, or run `tailrace jar` once as a user who can."
        ) from error
    return made


def _record(made: Path) -> None:
    """Makes `pip uninstall` delete a jar that was made in the package's folder, like the files in RECORD."""
    try:
        installed = distribution("tailrace")
    except PackageNotFoundError:
        return
    record = next((file for file in installed.files or [] if file.match("*.dist-info/RECORD")), None)
    if record is None or Path(str(installed.locate_file("tailrace/jars"))).resolve() != _FOLDER:
        return
    if made.is_relative_to(_FOLDER):
        line = f"tailrace/jars/{made.relative_to(_FOLDER).as_posix()},,\n"
        path = Path(str(record.locate()))
        if line not in path.read_text(encoding="utf-8").splitlines(keepends=True):
            with path.open("a", encoding="utf-8", newline="") as file:
                file.write(line)


def _name(minor: str) -> str:
    return f"tailrace-spark{minor}_{SCALA_SERIES}-{__version__}.jar"


def read_versions(jar: Path) -> JarVersions:
    """Reads the versions in a jar's manifest.

    Args:
        jar: path of a jar that sbt built.

    Raises:
        TailraceVersionError: it isn't a Tailrace jar, or is damaged.
    """
    try:
        with zipfile.ZipFile(jar) as archive:
            manifest = archive.read("META-INF/MANIFEST.MF").decode("utf-8")
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise TailraceVersionError(
            f"{jar} can't be read as a jar ({error}): reinstall tailrace with pip install --force-reinstall."
        ) from error
    # One "Name: value" per line; a value beyond 72 bytes would continue in the next line, after a blank.
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
