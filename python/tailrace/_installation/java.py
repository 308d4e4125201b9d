"""The Java that this machine would run, and a check of its version.

Standard library only, and imports nothing of the package: the build backend loads this file by its path,
before the package or its dependencies exist.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

MINIMUM_MAJOR = 17
_CURE = f"install a JDK {MINIMUM_MAJOR} or newer and put it on the PATH, or set JAVA_HOME to it"


class JavaUnusableError(RuntimeError):
    """There is no Java, or it is too old. The message is one sentence with the problem and the fix."""


@dataclass(frozen=True)
class Java:
    """A Java that runs: the path of its launcher, and its version as it names it ("17.0.15", "1.8.0_392")."""

    path: Path
    version: str

    @property
    def major(self) -> int:
        """The feature version: 17 for "17.0.15", 8 for "1.8.0_392"."""
        return major_version(self.version)


def major_version(version: str) -> int:
    """Reads the feature version out of a version string, the old form "1.8" included; 0 if it has none."""
    numbers = [int(part) for part in re.findall(r"\d+", version)[:2]]
    if not numbers:
        return 0
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


def find_java(environ: Mapping[str, str]) -> Java:
    """Finds the Java that Spark's own launcher would use: that of JAVA_HOME, otherwise the first on the PATH.

    Args:
        environ: environment variables; JAVA_HOME and PATH are read.

    Raises:
        JavaUnusableError: there is none, it doesn't run, or it is older than Java 17.
    """
    path = locate_java(environ)
    try:
        run = subprocess.run([path, "-version"], capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JavaUnusableError(f"{path} doesn't run ({error}): {_CURE}.") from error
    # `java -version` writes to the error stream: openjdk version "17.0.15" 2025-04-15
    found = re.search(r'version "([^"]+)"', run.stderr + run.stdout)
    if run.returncode != 0 or found is None:
        raise JavaUnusableError(f"{path} is no working Java: {_CURE}.")
    java = Java(path, found.group(1))
    if java.major < MINIMUM_MAJOR:
        raise JavaUnusableError(f"Java {java.version} ({path}) is too old for Spark 4: {_CURE}.")
    return java


def locate_java(environ: Mapping[str, str]) -> Path:
    """Finds the launcher that `find_java` would run, without running it.

    Args:
        environ: environment variables; JAVA_HOME and PATH are read.

    Raises:
        JavaUnusableError: there is none.
    """
    home = environ.get("JAVA_HOME")
    if home:
        path = shutil.which("java", path=str(Path(home) / "bin"))
        if path is None:
            raise JavaUnusableError(f"JAVA_HOME is {home}, which has no bin/java: {_CURE}.")
        return Path(path)
    path = shutil.which("java", path=environ.get("PATH", ""))
    if path is None:
        raise JavaUnusableError(f"Java wasn't found: {_CURE}.")
    return Path(path)
