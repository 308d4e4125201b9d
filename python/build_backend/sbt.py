"""Runs sbt in this repository, on a machine that needs to have a JDK and nothing else.

    python python/build_backend/sbt.py test

An `sbt` on the PATH is used as it is. Otherwise sbt's launcher, of the version in project/build.properties,
is resolved once by the Apache Ivy jar that pyspark ships in its jars/ folder, into the user's cache
directory. Standard library only; pyspark is located and not imported, so this works in pip's isolated build
environment too.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

REPOSITORY = Path(__file__).resolve().parents[2]
# The stack: the Scala compiler recurses deeply over long expressions. The JVM's first compiler alone, with
# room for its code: the second one takes two fifths of the processor time, and a build is over before that
# has paid for itself.
_JVM_OPTIONS = [
    "-Xmx2g",
    "-Xss8m",
    "-XX:TieredStopAtLevel=1",
    "-XX:ReservedCodeCacheSize=240m",
    "-XX:+UseParallelGC",
]


class SbtError(RuntimeError):
    """sbt can't be run on this machine. The message is one sentence with the problem and the fix."""


class _Java(Protocol):
    path: Path


class _JavaModule(Protocol):
    JavaUnusableError: type[RuntimeError]

    def find_java(self, environ: Mapping[str, str]) -> _Java: ...


def check_java(environ: Mapping[str, str]) -> Path:
    """Returns the launcher of a Java that is new enough.

    Args:
        environ: environment variables; JAVA_HOME and PATH are read.

    Raises:
        SbtError: there is no Java, or it is too old.
    """
    java = _java_module()
    try:
        return java.find_java(environ).path
    except java.JavaUnusableError as error:
        raise SbtError(str(error)) from error


def command(arguments: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """The command line that runs sbt; resolves the launcher first if there is no sbt and no cached one.

    Args:
        arguments: sbt's commands, for instance ["jvm/package"].
        environ: environment variables; PATH, JAVA_HOME and those of the cache directory are read.

    Raises:
        SbtError: there is no usable Java, or the launcher can't be resolved.
    """
    java = check_java(environ)
    installed = shutil.which("sbt", path=environ.get("PATH", ""))
    if installed is not None:
        return [installed, *arguments]
    launcher = _launcher(java, environ)
    # No server: a second sbt in the same checkout would ask whether to attach to the first one.
    return [str(java), *_JVM_OPTIONS, "-Dsbt.server.autostart=false", "-jar", str(launcher), *arguments]


def needs_ivy(environ: Mapping[str, str]) -> bool:
    """True if `command` would resolve the launcher, which needs pyspark's Ivy jar.

    Args:
        environ: environment variables; PATH and those of the cache directory are read.

    Raises:
        SbtError: project/build.properties doesn't name the launcher's version.
    """
    return shutil.which("sbt", path=environ.get("PATH", "")) is None and not _cached(environ).is_file()


def sbt_version(properties: Path) -> str:
    """Reads the version out of project/build.properties.

    Raises:
        SbtError: the file has no `sbt.version`.
    """
    found = re.search(r"^\s*sbt\.version\s*=\s*(\S+)", properties.read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        raise SbtError(f"{properties} has no line `sbt.version=...`.")
    return found.group(1)


def cache_directory(environ: Mapping[str, str]) -> Path:
    """Where resolved launchers are kept: the user's cache directory, by the platform's custom."""
    home = Path.home()
    if sys.platform == "win32":
        base = Path(environ.get("LOCALAPPDATA", home / "AppData" / "Local"))
    elif sys.platform == "darwin":
        base = home / "Library" / "Caches"
    else:
        base = Path(environ.get("XDG_CACHE_HOME") or home / ".cache")
    return base / "tailrace" / "sbt"


def sparks_directory(environ: Mapping[str, str]) -> Path:
    """Where sparks.py keeps a pyspark for each version of Spark."""
    return cache_directory(environ).with_name("pyspark")


def run(arguments: Sequence[str], *, interactive: bool = False) -> int:
    """Runs sbt with the repository as its working directory and returns its exit code.

    Args:
        arguments: sbt's commands, for instance ["jvm/package"].
        interactive: lets sbt read this process's input; otherwise a question ends it instead of blocking.

    Raises:
        SbtError: there is no usable Java, or the launcher can't be resolved.
    """
    line = command(arguments, os.environ)
    stdin = None if interactive else subprocess.DEVNULL
    # For sbt's calls of Python (project/SparkJars.scala): the first python3 on the PATH may have no pip.
    environ = {**os.environ, "TAILRACE_PYTHON": sys.executable}
    return subprocess.run(line, cwd=REPOSITORY, stdin=stdin, check=False, env=environ).returncode


def _version() -> str:
    return sbt_version(REPOSITORY / "project" / "build.properties")


def _cached(environ: Mapping[str, str]) -> Path:
    return cache_directory(environ) / f"sbt-launch-{_version()}.jar"


def _launcher(java: Path, environ: Mapping[str, str]) -> Path:
    launcher = _cached(environ)
    if launcher.is_file():
        return launcher
    version = _version()
    cache = launcher.parent
    cache.mkdir(parents=True, exist_ok=True)
    # Resolved elsewhere and moved into place: an interruption or a second build never leaves half a jar.
    with tempfile.TemporaryDirectory(dir=cache) as aside:
        resolve = [
            *[str(java), "-jar", str(_ivy_jar()), "-dependency", "org.scala-sbt", "sbt-launch", version],
            *["-confs", "default", "-types", "jar", "-cache", f"{aside}/ivy"],
            *["-retrieve", f"{aside}/[artifact]-[revision](-[classifier]).[ext]"],
        ]
        done = subprocess.run(resolve, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        resolved = Path(aside) / launcher.name
        if done.returncode != 0 or not resolved.is_file():
            print(done.stdout + done.stderr, file=sys.stderr)
            raise SbtError(
                f"Apache Ivy couldn't resolve sbt's launcher {version} (its output is above): check the "
                "network and Java's proxy settings, or install sbt and put it on the PATH."
            )
        resolved.replace(launcher)
    return launcher


def _ivy_jar() -> Path:
    spec = importlib.util.find_spec("pyspark")
    folders = list(spec.submodule_search_locations or []) if spec is not None else []
    jars = sorted(jar for folder in folders for jar in Path(folder).glob("jars/ivy-*.jar"))
    if not jars:
        raise SbtError(
            "There is no sbt on the PATH, and no pyspark with an Ivy jar in this Python environment that "
            'could resolve one: install sbt, or run `pip install "pyspark>=4.1,<4.4"`.'
        )
    return jars[-1]


def _java_module() -> _JavaModule:
    """Loads tailrace/_installation/java.py by its path: importing the package would import pyspark."""
    path = REPOSITORY / "python" / "tailrace" / "_installation" / "java.py"
    spec = importlib.util.spec_from_file_location("_tailrace_java", path)
    if spec is None or spec.loader is None:
        raise SbtError(f"{path} is missing: this isn't a whole checkout or sdist of Tailrace.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return cast("_JavaModule", module)


def main() -> int:
    """Runs sbt with this script's arguments; a machine that can't gets one line and exit code 1."""
    try:
        return run(sys.argv[1:], interactive=sys.stdin is not None and sys.stdin.isatty())
    except SbtError as error:
        print(f"tailrace: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
